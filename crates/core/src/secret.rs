//! Signing secrets: what a value in SSM must look like to be signed with.
//!
//! A value is one or more secrets separated by white space, newest first. Each may carry an end,
//! `whsec_OLD;until=2026-12-01T12:00:00Z`; past it, it is ignored. That is a whole rotation with
//! overlap: put the new secret in front, give the old one an end.
//!
//! A secret that is not exactly right is never repaired and never skipped: what it signed would
//! either be refused by every receiver or, with an empty key, be forgeable by anyone.

use std::fmt;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _};
use sha2::Sha256;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Marks an HMAC-SHA256 secret (Standard Webhooks 1.0, "Signing secret serialization").
const PREFIX: &str = "whsec_";

/// The shortest and longest key, in bytes (Standard Webhooks 1.0: "between 24 bytes (192 bits)
/// and 64 bytes (512 bits)").
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// One secret, ready to sign. The key itself is not kept, only the state of an HMAC that has
/// taken it in.
#[derive(Clone)]
pub struct SigningSecret {
    pub(crate) mac: Hmac<Sha256>,
    until: Option<SystemTime>,
}

/// All secrets of one subscriber, newest first; at least one.
#[derive(Clone, Debug)]
pub struct SigningSecrets(Vec<SigningSecret>);

/// Why a value can not be signed with. Never carries any part of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing but white space.
    #[error("the signing secret is empty")]
    Empty,
    /// The first characters are others: a secret cut by white space, a ciphertext, a plain password.
    #[error("the signing secret does not start with `{PREFIX}`")]
    Prefix,
    /// The rest is not standard base64 with padding.
    #[error("the signing secret is not base64 (A-Z a-z 0-9 + /, padded with =) after `{PREFIX}`")]
    Alphabet,
    /// The key has a length that the specification does not allow.
    #[error("the signing key has {0} bytes; it must have 24 to 64")]
    Length(usize),
    /// What follows a `;` is not `until=` and a time.
    #[error(
        "a signing secret may be followed by `;until=` and a time such as 2026-12-01T12:00:00Z, nothing else"
    )]
    Until,
}

impl SigningSecrets {
    /// Reads the value of a signing-secret parameter.
    ///
    /// # Errors
    /// If any of the secrets in it is not exactly right, see [`SecretError`].
    pub fn parse(value: &str) -> Result<Self, SecretError> {
        let secrets = value
            .split_whitespace()
            .map(SigningSecret::parse)
            .collect::<Result<Vec<_>, _>>()?;
        if secrets.is_empty() {
            return Err(SecretError::Empty);
        }
        Ok(Self(secrets))
    }

    /// The secrets to sign with at `now`, newest first; none if all have ended.
    pub fn active(&self, now: SystemTime) -> impl Iterator<Item = &SigningSecret> {
        self.0
            .iter()
            .filter(move |secret| secret.until.is_none_or(|until| now < until))
    }
}

impl SigningSecret {
    fn parse(text: &str) -> Result<Self, SecretError> {
        let (secret, until) = match text.split_once(';') {
            None => (text, None),
            Some((secret, end)) => (secret, Some(parse_until(end)?)),
        };
        let encoded = secret.strip_prefix(PREFIX).ok_or(SecretError::Prefix)?;
        let key = STANDARD
            .decode(encoded)
            .map_err(|_| SecretError::Alphabet)?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err(SecretError::Length(key.len()));
        }
        let mac = Hmac::new_from_slice(&key).map_err(|_| SecretError::Length(key.len()))?;
        Ok(Self { mac, until })
    }
}

fn parse_until(text: &str) -> Result<SystemTime, SecretError> {
    text.strip_prefix("until=")
        .and_then(|time| OffsetDateTime::parse(time, &Rfc3339).ok())
        .map(SystemTime::from)
        .ok_or(SecretError::Until)
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SigningSecret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const S: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn whsec(key_bytes: usize) -> String {
        format!("whsec_{}", STANDARD.encode(vec![7; key_bytes]))
    }

    #[test]
    fn white_space_around_a_secret_is_no_part_of_it() {
        for value in [
            S.to_owned(),
            format!("{S}\n"),
            format!("{S}\r\n"),
            format!(" \t{S} "),
        ] {
            assert_eq!(
                SigningSecrets::parse(&value).unwrap().0.len(),
                1,
                "{value:?}"
            );
        }
    }

    #[test]
    fn every_wrong_secret_is_refused_with_its_reason() {
        let cut = "whsec_MfKQ9r8GKYqrTwjU\nPD8ILPZIo2LaLaSw";
        for (value, error) in [
            ("", SecretError::Empty),
            (" \n", SecretError::Empty),
            ("whsec_", SecretError::Length(0)),
            ("whsec_AA==", SecretError::Length(1)),
            (whsec(23).as_str(), SecretError::Length(23)),
            (whsec(65).as_str(), SecretError::Length(65)),
            ("whsec_not-base64!", SecretError::Alphabet),
            (
                "whsec_-__--__--__--__--__--__--__--__-",
                SecretError::Alphabet,
            ),
            (S.trim_end_matches('w'), SecretError::Alphabet),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::Prefix),
            (
                "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                SecretError::Prefix,
            ),
            ("whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::Prefix),
            (
                "AQICAHhwm0YaISJeRtJm5n1G6uqeekXuoXXPe5UFce9Rq8",
                SecretError::Prefix,
            ),
            (cut, SecretError::Length(12)),
        ] {
            assert_eq!(
                SigningSecrets::parse(value).unwrap_err(),
                error,
                "{value:?}"
            );
        }
        for bytes in [24, 32, 64] {
            assert!(SigningSecrets::parse(&whsec(bytes)).is_ok(), "{bytes}");
        }
    }

    #[test]
    fn one_wrong_secret_among_several_refuses_them_all() {
        assert_eq!(
            SigningSecrets::parse(&format!("{S} whsec_AA==")).unwrap_err(),
            SecretError::Length(1)
        );
    }

    #[test]
    fn a_secret_is_ignored_from_its_end_on() {
        let secrets =
            SigningSecrets::parse(&format!("{} {S};until=2026-12-01T12:00:00Z", whsec(32)))
                .unwrap();
        let end = UNIX_EPOCH + Duration::from_secs(1_796_126_400);
        assert_eq!(secrets.active(end - Duration::from_secs(1)).count(), 2);
        assert_eq!(secrets.active(end).count(), 1);
        let only = SigningSecrets::parse(&format!("{S};until=2026-12-01T13:00:00+01:00")).unwrap();
        assert_eq!(only.active(end - Duration::from_secs(1)).count(), 1);
        assert_eq!(only.active(end).count(), 0);
    }

    #[test]
    fn an_end_that_is_no_time_is_refused() {
        for end in [
            "",
            "until=",
            "until=tomorrow",
            "until=2026-12-01",
            "2026-12-01T12:00:00Z",
        ] {
            assert_eq!(
                SigningSecrets::parse(&format!("{S};{end}")).unwrap_err(),
                SecretError::Until,
                "{end}"
            );
        }
    }

    #[test]
    fn debug_output_tells_nothing() {
        let secrets = SigningSecrets::parse(S).unwrap();
        assert_eq!(
            format!("{secrets:?}"),
            "SigningSecrets([SigningSecret(redacted)])"
        );
    }
}
