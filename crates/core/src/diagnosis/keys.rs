//! What a text may be to verify with, also if it is not quite what it must be.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sha2::Sha256;

use super::Reason;
use super::header::{Candidate, bytes_of, hex};
use crate::secret::{
    KEY_BYTES, PRIVATE_PREFIX, PUBLIC_PREFIX, SEED_BYTES, SHARED_PREFIX, Scheme, SecretError,
    SigningSecrets, is_ciphertext,
};
use crate::verify::{KeyError, VerifyingKeys};

/// The least bytes of a cut signature by which it is told from chance.
const TELLING_BYTES: usize = 6;

/// What an HMAC costs beside its content, a comparison with a signature, and a check of an ed25519
/// signature, each as the number of bytes that could be hashed in that time (measured).
const HMAC_BYTES: usize = 256;
const COMPARED_BYTES: usize = 8;
const ED25519_BYTES: usize = 16 * 1024;

/// A receiver's secrets, as far as they can be made out.
pub(super) struct Keys {
    /// What to verify with, or why the text is not.
    pub verifying: Result<VerifyingKeys, Reason>,
    /// What is tried, the text as it must be first.
    pub ways: Vec<Way>,
}

/// One way to make a key of the text.
pub(super) struct Way {
    /// What is wrong with it.
    pub flaw: Option<Reason>,
    key: Key,
}

enum Key {
    Shared(Hmac<Sha256>),
    Public(UnparsedPublicKey<Vec<u8>>),
}

impl Keys {
    pub(super) fn read(text: &str) -> Self {
        let mut ways = Vec::new();
        let mut strict = Vec::new();
        let mut refused = None;
        let is_bare = bare(text) == text.trim();
        for part in bare(text).split_whitespace() {
            // An operator may paste the whole value of the parameter.
            let part = part.split(';').next().unwrap_or(part);
            add_ways(part, (!is_bare).then_some(Reason::SecretQuoted), &mut ways);
            match verifying_text(part) {
                Ok(text) => strict.push(text),
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        if refused.is_some() {
            let joined: String = bare(text).split_whitespace().collect();
            add_ways(&joined, Some(Reason::SecretPrefix), &mut ways);
        }
        ways.sort_by_key(|way| way.flaw.is_some());
        let verifying = match refused {
            Some(reason) => Err(reason),
            None if !is_bare => Err(Reason::SecretQuoted),
            None => VerifyingKeys::parse(&strict.join(" ")).map_err(of_key_error),
        };
        Self { verifying, ways }
    }

    /// The ways with which nothing is wrong; all of them if there is no such one.
    pub(super) fn likely(&self) -> impl Iterator<Item = &Way> {
        let all_are_flawed = self.ways.iter().all(|way| way.flaw.is_some());
        let ways = self.ways.iter();
        ways.filter(move |way| all_are_flawed || way.flaw.is_none())
    }

    /// The schemes that the keys are for.
    pub(super) fn schemes(&self) -> impl Iterator<Item = Scheme> {
        self.likely().map(Way::scheme)
    }
}

impl Way {
    fn scheme(&self) -> Scheme {
        match self.key {
            Key::Shared(_) => Scheme::V1,
            Key::Public(_) => Scheme::V1a,
        }
    }

    /// What [`Way::has_made`] costs, as the number of bytes that could be hashed in that time.
    pub(super) fn cost(&self, content_bytes: usize, candidates: &[Candidate]) -> usize {
        match &self.key {
            Key::Shared(_) => content_bytes + HMAC_BYTES + candidates.len() * COMPARED_BYTES,
            Key::Public(_) => {
                let whole = bytes_of(Scheme::V1a);
                let checks = candidates.iter().filter(|one| one.bytes.len() == whole);
                (content_bytes + ED25519_BYTES).saturating_mul(checks.count())
            }
        }
    }

    /// Whether this key has made one of the signatures over this content, and what is wrong with
    /// that one.
    pub(super) fn has_made(
        &self,
        content: &[&[u8]],
        candidates: &[Candidate],
    ) -> Option<Option<Reason>> {
        let whole = bytes_of(self.scheme());
        let found = match &self.key {
            Key::Shared(hmac) => {
                let mut mac = hmac.clone();
                for part in content {
                    mac.update(part);
                }
                let tag = mac.finalize().into_bytes();
                candidates.iter().find(|candidate| {
                    (TELLING_BYTES..=whole).contains(&candidate.bytes.len())
                        && tag.starts_with(&candidate.bytes)
                })
            }
            Key::Public(key) => {
                let mut whole = candidates
                    .iter()
                    .filter(|candidate| candidate.bytes.len() == whole)
                    .peekable();
                whole.peek()?;
                let content = content.concat();
                whole.find(|candidate| key.verify(&content, &candidate.bytes).is_ok())
            }
        }?;
        let is_other = found.scheme.is_some_and(|scheme| scheme != self.scheme());
        let flaw = if found.bytes.len() < whole {
            Some(Reason::SignatureTruncated)
        } else if is_other {
            Some(Reason::SignatureScheme)
        } else {
            found.flaw
        };
        Some(flaw)
    }
}

/// Without quotes and what is around them.
fn bare(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '`']).trim()
}

/// What [`VerifyingKeys`] takes: of a signing key, its public half.
fn verifying_text(part: &str) -> Result<String, Reason> {
    if part.starts_with(PRIVATE_PREFIX) {
        let secrets = SigningSecrets::parse(part).map_err(|error| of_secret_error(error.error))?;
        let public = secrets.iter().next().and_then(|secret| secret.public_key());
        return public.ok_or(Reason::SecretPrefix);
    }
    if is_ciphertext(part) {
        return Err(Reason::SecretCiphertext);
    }
    VerifyingKeys::parse(part)
        .map(|_| part.to_owned())
        .map_err(of_key_error)
}

fn of_key_error(error: KeyError) -> Reason {
    match error {
        KeyError::Empty => Reason::SecretEmpty,
        KeyError::Prefix => Reason::SecretPrefix,
        KeyError::Alphabet => Reason::SecretAlphabet,
        KeyError::Length(bytes) => Reason::SecretLength(bytes),
    }
}

fn of_secret_error(error: SecretError) -> Reason {
    match error {
        SecretError::Empty => Reason::SecretEmpty,
        SecretError::Ciphertext => Reason::SecretCiphertext,
        SecretError::PublicKey | SecretError::Prefix | SecretError::Until => Reason::SecretPrefix,
        SecretError::Alphabet => Reason::SecretAlphabet,
        SecretError::Length(bytes) | SecretError::Ed25519Length(bytes) => {
            Reason::SecretLength(bytes)
        }
        SecretError::Ed25519Halves => Reason::SecretHalves,
    }
}

fn add_ways(part: &str, outer: Option<Reason>, ways: &mut Vec<Way>) {
    let kinds = [SHARED_PREFIX, PUBLIC_PREFIX, PRIVATE_PREFIX];
    let given = kinds.into_iter().find(|prefix| part.starts_with(prefix));
    let encoded = given.and_then(|prefix| part.strip_prefix(prefix));
    let encoded = encoded.unwrap_or(part);
    let strict = STANDARD.decode(encoded).ok().map(|bytes| (None, bytes));
    let repaired = repaired(encoded)
        .into_iter()
        .map(|bytes| (Some(Reason::SecretAlphabet), bytes));
    for (alphabet, bytes) in strict.into_iter().chain(repaired) {
        for kind in kinds {
            let other = match given {
                Some(given) if given == kind => None,
                Some(given) => Some(Reason::SecretKind(given, kind)),
                None => Some(Reason::SecretPrefix),
            };
            let length = (kind == SHARED_PREFIX && !KEY_BYTES.contains(&bytes.len()))
                .then_some(Reason::SecretLength(bytes.len()));
            if let Some(key) = key(kind, &bytes) {
                let flaw = outer.or(alphabet).or(other).or(length);
                ways.push(Way { flaw, key });
            }
        }
    }
    for text in [part, encoded] {
        if let Some(key) = key(SHARED_PREFIX, text.as_bytes()) {
            let flaw = Some(Reason::SecretAsText);
            ways.push(Way { flaw, key });
        }
    }
}

/// The bytes in the alphabets that are mistaken for standard base64.
fn repaired(encoded: &str) -> Vec<Vec<u8>> {
    let decoders = [
        URL_SAFE.decode(encoded).ok(),
        URL_SAFE_NO_PAD.decode(encoded).ok(),
        STANDARD_NO_PAD.decode(encoded).ok(),
        hex(encoded),
    ];
    decoders.into_iter().flatten().collect()
}

fn key(kind: &str, bytes: &[u8]) -> Option<Key> {
    if bytes.is_empty() {
        return None;
    }
    if kind == SHARED_PREFIX {
        return Hmac::new_from_slice(bytes).ok().map(Key::Shared);
    }
    let public = if kind == PUBLIC_PREFIX {
        (bytes.len() == SEED_BYTES).then(|| bytes.to_vec())?
    } else {
        let pair = Ed25519KeyPair::from_seed_unchecked(bytes.get(..SEED_BYTES)?).ok()?;
        pair.public_key().as_ref().to_vec()
    };
    Some(Key::Public(UnparsedPublicKey::new(&ED25519, public)))
}
