//! Signing secrets: what a value in SSM must look like to be signed with.
//!
//! A value is one or more secrets separated by white space, newest first. Each may carry an end,
//! `whsec_OLD;until=2026-12-01T12:00:00Z`; past it, it is ignored. That is a whole rotation with
//! overlap: put the new secret in front, give the old one an end, which is what [`rotate`] does.
//!
//! There are two schemes (Standard Webhooks 1.0, "Signature scheme"): `whsec_` secrets are shared
//! with the receiver and sign with HMAC-SHA256, `whsk_` secrets are ours alone and sign with
//! ed25519, which the receiver verifies with a public key, `whpk_`.
//!
//! A secret that is not exactly right is never repaired and never skipped: what it signed would
//! either be refused by every receiver or, with an empty key, be forgeable by anyone.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sha2::Sha256;

use crate::timestamp;

mod rotation;

pub use rotation::{RotateError, VALUE_MAX_BYTES, rotate};

/// Marks an HMAC-SHA256 secret (Standard Webhooks 1.0, "Signing secret serialization").
pub const SHARED_PREFIX: &str = "whsec_";
/// Marks the secret half of an ed25519 key.
pub const PRIVATE_PREFIX: &str = "whsk_";
/// Marks the public half of an ed25519 key.
pub const PUBLIC_PREFIX: &str = "whpk_";

/// The shortest and longest shared key, in bytes (Standard Webhooks 1.0: "between 24 bytes (192
/// bits) and 64 bytes (512 bits)").
pub(crate) const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Length of the seed of an ed25519 key, and of the shared keys that are made here, in bytes.
pub const SEED_BYTES: usize = 32;

/// How the base64 of what KMS or the AWS Encryption SDK has encrypted begins.
const CIPHERTEXT_BEGINS: [&str; 4] = ["AQICA", "AYAD", "AgV4", "AQIDA"];

/// The SSM parameter of a subscriber's secrets, below a stack's prefix.
#[must_use]
pub fn parameter_name(prefix: &str, subscriber: &str) -> String {
    format!("/{prefix}/{subscriber}/signing-secret")
}

/// How a secret signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `v1`: HMAC-SHA256 with a key that the receiver has too.
    V1,
    /// `v1a`: ed25519, of which the receiver has the public key.
    V1a,
}

impl Scheme {
    /// Both schemes.
    pub const ALL: [Self; 2] = [Self::V1, Self::V1a];

    /// What stands before the comma of a signature.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1a => "v1a",
        }
    }
}

/// A key, ready to sign.
#[derive(Clone)]
pub(crate) enum Key {
    /// Not the key itself is kept, only the state of an HMAC that has taken it in.
    Shared(Hmac<Sha256>),
    Ed25519(Arc<Ed25519KeyPair>),
}

/// One secret, ready to sign.
#[derive(Clone)]
pub struct SigningSecret {
    pub(crate) key: Key,
    until: Option<SystemTime>,
}

/// All secrets of one subscriber, newest first; at least one.
#[derive(Clone, Debug)]
pub struct SigningSecrets(Vec<SigningSecret>);

/// Why a secret can not be signed with. Never carries any part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing but white space.
    #[error("the signing secret is empty")]
    Empty,
    /// It begins like what a key of AWS has encrypted.
    #[error(
        "the signing secret looks like a ciphertext: store the secret itself, as a SecureString, \
         and let SSM encrypt and decrypt it"
    )]
    Ciphertext,
    /// The public key, which verifies.
    #[error(
        "this is a public key: what signs is its secret half, which starts with `{PRIVATE_PREFIX}`"
    )]
    PublicKey,
    /// The first characters are others: a secret cut by white space, a plain password.
    #[error(
        "the signing secret does not start with `{SHARED_PREFIX}` or `{PRIVATE_PREFIX}` (is there \
         white space in it?)"
    )]
    Prefix,
    /// The rest is not standard base64 with padding.
    #[error("the signing secret is not base64 (A-Z a-z 0-9 + /, padded with =) after its prefix")]
    Alphabet,
    /// The shared key has a length that the specification does not allow.
    #[error("the signing key has {0} bytes; it must have 24 to 64")]
    Length(usize),
    /// The ed25519 key has another length than they have.
    #[error("the ed25519 key has {0} bytes; it must have 32, or 64 with its public key")]
    Ed25519Length(usize),
    /// The public key that follows the ed25519 key is another one's.
    #[error("the two halves of the ed25519 key do not belong together")]
    Ed25519Halves,
    /// What follows a `;` is not `until=` and a time.
    #[error(
        "a signing secret may be followed by `;until=` and a time such as 2026-12-01T12:00:00Z, nothing else"
    )]
    Until,
}

/// Why a value of several secrets can not be signed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretsError {
    /// Which secret of the value is wrong, from 1.
    pub number: usize,
    /// How many the value has, as white space separates them.
    pub of: usize,
    /// What is wrong with it.
    pub error: SecretError,
}

impl std::error::Error for SecretsError {}

impl fmt::Display for SecretsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of > 1 {
            write!(f, "secret {} of {}: ", self.number, self.of)?;
        }
        self.error.fmt(f)
    }
}

impl SigningSecrets {
    /// Reads the value of a signing-secret parameter.
    ///
    /// # Errors
    /// If any of the secrets in it is not exactly right, see [`SecretError`].
    pub fn parse(value: &str) -> Result<Self, SecretsError> {
        let of = value.split_whitespace().count();
        let at = |number| {
            move |error| SecretsError {
                number,
                of: of.max(1),
                error,
            }
        };
        let secrets = value
            .split_whitespace()
            .zip(1..)
            .map(|(text, number)| SigningSecret::parse(text).map_err(at(number)))
            .collect::<Result<Vec<_>, _>>()?;
        if secrets.is_empty() {
            return Err(at(1)(SecretError::Empty));
        }
        Ok(Self(secrets))
    }

    /// The secrets to sign with at `now`, newest first; none if all have ended.
    pub fn active(&self, now: SystemTime) -> impl Iterator<Item = &SigningSecret> {
        self.0.iter().filter(move |secret| secret.is_active(now))
    }

    /// All of them, newest first, also those that have ended.
    pub fn iter(&self) -> impl Iterator<Item = &SigningSecret> {
        self.0.iter()
    }
}

impl SigningSecret {
    fn parse(text: &str) -> Result<Self, SecretError> {
        let (secret, until) = match text.split_once(';') {
            None => (text, None),
            Some((secret, end)) => (secret, Some(parse_until(end)?)),
        };
        let key = if let Some(encoded) = secret.strip_prefix(SHARED_PREFIX) {
            let key = decode(encoded)?;
            if !KEY_BYTES.contains(&key.len()) {
                return Err(SecretError::Length(key.len()));
            }
            let hmac = Hmac::new_from_slice(&key).map_err(|_| SecretError::Length(key.len()))?;
            Key::Shared(hmac)
        } else if let Some(encoded) = secret.strip_prefix(PRIVATE_PREFIX) {
            Key::Ed25519(Arc::new(ed25519(&decode(encoded)?)?))
        } else if secret.starts_with(PUBLIC_PREFIX) {
            return Err(SecretError::PublicKey);
        } else if is_ciphertext(secret) {
            return Err(SecretError::Ciphertext);
        } else {
            return Err(SecretError::Prefix);
        };
        Ok(Self { key, until })
    }

    /// How it signs.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        match self.key {
            Key::Shared(_) => Scheme::V1,
            Key::Ed25519(_) => Scheme::V1a,
        }
    }

    /// When it ends, if it does.
    #[must_use]
    pub fn until(&self) -> Option<SystemTime> {
        self.until
    }

    /// Whether it signs at `now`.
    #[must_use]
    pub fn is_active(&self, now: SystemTime) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// What the receiver verifies an ed25519 signature with, `whpk_` and base64.
    #[must_use]
    pub fn public_key(&self) -> Option<String> {
        match &self.key {
            Key::Shared(_) => None,
            Key::Ed25519(pair) => Some(format!(
                "{PUBLIC_PREFIX}{}",
                STANDARD.encode(pair.public_key())
            )),
        }
    }
}

/// Whether a text begins like what a key of AWS has encrypted.
pub(crate) fn is_ciphertext(text: &str) -> bool {
    CIPHERTEXT_BEGINS
        .iter()
        .any(|start| text.starts_with(start))
}

pub(crate) fn decode(encoded: &str) -> Result<Vec<u8>, SecretError> {
    STANDARD.decode(encoded).map_err(|_| SecretError::Alphabet)
}

/// A seed, or a seed and its public key as other tools write it.
fn ed25519(key: &[u8]) -> Result<Ed25519KeyPair, SecretError> {
    match key.split_at_checked(SEED_BYTES) {
        Some((seed, [])) => Ed25519KeyPair::from_seed_unchecked(seed)
            .map_err(|_| SecretError::Ed25519Length(key.len())),
        Some((seed, public)) if public.len() == SEED_BYTES => {
            Ed25519KeyPair::from_seed_and_public_key(seed, public)
                .map_err(|_| SecretError::Ed25519Halves)
        }
        Some(_) | None => Err(SecretError::Ed25519Length(key.len())),
    }
}

fn parse_until(text: &str) -> Result<SystemTime, SecretError> {
    text.strip_prefix("until=")
        .and_then(timestamp::parse)
        .ok_or(SecretError::Until)
}

/// The text of a secret with this key, which must come from a random source.
#[must_use]
pub fn secret_text(scheme: Scheme, key: &[u8; SEED_BYTES]) -> String {
    let prefix = match scheme {
        Scheme::V1 => SHARED_PREFIX,
        Scheme::V1a => PRIVATE_PREFIX,
    };
    format!("{prefix}{}", STANDARD.encode(key))
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SigningSecret(redacted)")
    }
}

#[cfg(test)]
mod tests;
