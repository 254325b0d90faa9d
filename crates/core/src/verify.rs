//! The other side of a signature: what a receiver does with a request (Standard Webhooks 1.0,
//! "Verifying webhook authenticity").
//!
//! Stricter than the reference library for Rust, which compares only as many bytes as the header
//! has and so accepts one that was cut: here a signature is right as a whole or not at all.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::Sha256;

use crate::secret::{
    KEY_BYTES, PUBLIC_PREFIX, SEED_BYTES, SHARED_PREFIX, Scheme, SecretError, decode,
};
use crate::signature::signed_content;

/// How far the sender's clock and ours may be apart, either way: what the official libraries allow.
pub const TOLERANCE: Duration = Duration::from_secs(300);

/// The most signatures of a header that are looked at. A parameter of SSM holds no more active
/// secrets with ends, and each costs time, which whoever sends the header decides on.
const MOST_SIGNATURES: usize = 64;

/// What a receiver verifies with.
#[derive(Clone)]
enum VerifyingKey {
    Shared(Hmac<Sha256>),
    Ed25519(UnparsedPublicKey<Vec<u8>>),
}

/// All keys of a receiver; at least one. Each of them is enough, so that a secret can be rotated.
#[derive(Clone)]
pub struct VerifyingKeys(Vec<VerifyingKey>);

/// Why a text is not what to verify with. Never carries any part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing but white space.
    #[error("there is no secret to verify with")]
    Empty,
    /// The first characters are others.
    #[error(
        "what to verify with starts with `{SHARED_PREFIX}` (shared secret) or `{PUBLIC_PREFIX}` (public key)"
    )]
    Prefix,
    /// The rest is not standard base64 with padding.
    #[error("after its prefix it is not base64 (A-Z a-z 0-9 + /, padded with =)")]
    Alphabet,
    /// A length that no key has.
    #[error("the key has {0} bytes; a shared secret has 24 to 64, a public key 32")]
    Length(usize),
}

/// The three headers of a request.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// `webhook-id`.
    pub id: &'a str,
    /// `webhook-timestamp`.
    pub timestamp: &'a str,
    /// `webhook-signature`.
    pub signature: &'a str,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// An id that two different messages could share a signature with, or none.
    #[error("`webhook-id` is empty or has a dot in it")]
    Id,
    /// Not a number of seconds.
    #[error("`webhook-timestamp` is not a whole number of seconds since 1970")]
    Timestamp,
    /// Sent, or sent again by somebody else, too long ago.
    #[error("`webhook-timestamp` is {0} seconds ago, more than the {tolerance} that are allowed", tolerance = TOLERANCE.as_secs())]
    TooOld(u64),
    /// Sent in the future.
    #[error("`webhook-timestamp` is {0} seconds ahead, more than the {tolerance} that are allowed", tolerance = TOLERANCE.as_secs())]
    TooNew(u64),
    /// None that any of the keys could have made.
    #[error("`webhook-signature` has no signature of a scheme that is verified here")]
    NoSignature,
    /// None of them is right.
    #[error("no signature in `webhook-signature` is right")]
    Signature,
}

impl VerifyingKeys {
    /// Reads what a receiver was given: shared secrets (`whsec_`) and public keys (`whpk_`),
    /// separated by white space.
    ///
    /// # Errors
    /// If any of them is not exactly right, see [`KeyError`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let keys = text
            .split_whitespace()
            .map(VerifyingKey::parse)
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(KeyError::Empty);
        }
        Ok(Self(keys))
    }

    /// Finds out whether a request was signed for one of these keys, over exactly this body, around
    /// `now`.
    ///
    /// # Errors
    /// The first reason against it, in the order of [`Rejection`].
    pub fn verify(
        &self,
        signed: Signed<'_>,
        body: &[u8],
        now: SystemTime,
    ) -> Result<(), Rejection> {
        if signed.id.is_empty() || signed.id.contains('.') {
            return Err(Rejection::Id);
        }
        judge_time(signed.timestamp, now)?;
        self.verify_signature(signed, body)
    }

    /// The same without a look at the clock.
    ///
    /// # Errors
    /// If no signature is right.
    pub fn verify_signature(&self, signed: Signed<'_>, body: &[u8]) -> Result<(), Rejection> {
        let content = signed_content(signed.id, signed.timestamp, body);
        let signatures: Vec<(&str, Option<Vec<u8>>)> = signed
            .signature
            // The specification has a space between them, and libraries know nothing else.
            .split(' ')
            .filter(|signature| !signature.is_empty())
            .take(MOST_SIGNATURES)
            .filter_map(|signature| signature.split_once(','))
            .map(|(version, encoded)| (version, decode(encoded).ok()))
            .collect();
        let mut rejection = Rejection::NoSignature;
        for key in &self.0 {
            let version = key.scheme().name();
            if !signatures.iter().any(|(of, _)| *of == version) {
                continue;
            }
            rejection = Rejection::Signature;
            let check = key.over(content);
            let is_right = |(of, bytes): &(&str, Option<Vec<u8>>)| {
                *of == version && bytes.as_deref().is_some_and(|bytes| check.made(bytes))
            };
            if signatures.iter().any(is_right) {
                return Ok(());
            }
        }
        Err(rejection)
    }
}

/// A key that has taken in what was signed, once, however many signatures there are.
enum Check<'a> {
    Shared(Hmac<Sha256>),
    Ed25519(&'a UnparsedPublicKey<Vec<u8>>, Vec<u8>),
}

impl Check<'_> {
    /// Whether this is its signature, found out in the same time whatever is wrong with it.
    fn made(&self, signature: &[u8]) -> bool {
        match self {
            Self::Shared(mac) => mac.clone().verify_slice(signature).is_ok(),
            Self::Ed25519(key, content) => key.verify(content, signature).is_ok(),
        }
    }
}

impl VerifyingKey {
    fn parse(text: &str) -> Result<Self, KeyError> {
        let decoded = |encoded| decode(encoded).map_err(|_: SecretError| KeyError::Alphabet);
        if let Some(encoded) = text.strip_prefix(SHARED_PREFIX) {
            let key = decoded(encoded)?;
            if !KEY_BYTES.contains(&key.len()) {
                return Err(KeyError::Length(key.len()));
            }
            let hmac = Hmac::new_from_slice(&key).map_err(|_| KeyError::Length(key.len()))?;
            Ok(Self::Shared(hmac))
        } else if let Some(encoded) = text.strip_prefix(PUBLIC_PREFIX) {
            let key = decoded(encoded)?;
            if key.len() != SEED_BYTES {
                return Err(KeyError::Length(key.len()));
            }
            Ok(Self::Ed25519(UnparsedPublicKey::new(&ED25519, key)))
        } else {
            Err(KeyError::Prefix)
        }
    }

    fn scheme(&self) -> Scheme {
        match self {
            Self::Shared(_) => Scheme::V1,
            Self::Ed25519(_) => Scheme::V1a,
        }
    }

    fn over(&self, content: [&[u8]; 5]) -> Check<'_> {
        match self {
            Self::Shared(hmac) => {
                let mut mac = hmac.clone();
                for part in content {
                    mac.update(part);
                }
                Check::Shared(mac)
            }
            Self::Ed25519(key) => Check::Ed25519(key, content.concat()),
        }
    }
}

impl fmt::Debug for VerifyingKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "VerifyingKeys({} redacted)", self.0.len())
    }
}

fn judge_time(timestamp: &str, now: SystemTime) -> Result<(), Rejection> {
    // `parse` alone would take `+1700000000`.
    let sent = Some(timestamp)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse::<u64>().ok())
        .ok_or(Rejection::Timestamp)?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match (now.checked_sub(sent), sent.checked_sub(now)) {
        (Some(ago), _) if ago > TOLERANCE.as_secs() => Err(Rejection::TooOld(ago)),
        (_, Some(ahead)) if ahead > TOLERANCE.as_secs() => Err(Rejection::TooNew(ahead)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const V1: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const V1A: &str = "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag==";
    /// The public key of the seed that made it.
    const PUBLIC: &str = "whpk_";

    fn public() -> String {
        let secrets = crate::secret::SigningSecrets::parse(
            "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=",
        );
        let public = secrets.unwrap().iter().next().unwrap().public_key();
        public.unwrap()
    }

    fn verified(keys: &str, signature: &str, seconds_later: i64) -> Result<(), Rejection> {
        let signed = Signed {
            id: ID,
            timestamp: &AT.to_string(),
            signature,
        };
        let now = UNIX_EPOCH + Duration::from_secs(AT.saturating_add_signed(seconds_later));
        VerifyingKeys::parse(keys)
            .unwrap()
            .verify(signed, BODY, now)
    }

    #[test]
    fn one_right_signature_for_one_of_the_keys_is_enough() {
        for (keys, signature) in [
            (S, V1.to_owned()),
            (public().as_str(), V1A.to_owned()),
            (S, format!("{V1A} {V1}")),
            (S, format!("v2,xyz v1,AAAA {V1} v1a,AAAA")),
            (&format!("{OTHER} {S}"), V1.to_owned()),
            (&format!("{OTHER}\n{}", public()), format!("{V1A} {V1}")),
        ] {
            assert_eq!(verified(keys, &signature, 0), Ok(()), "{signature}");
        }
    }

    #[test]
    fn what_is_cut_changed_or_for_another_key_is_rejected() {
        let cut = V1.trim_end_matches('=');
        for (keys, signature) in [
            (S, cut),
            (S, V1.get(..20).unwrap()),
            (S, "v1,"),
            (S, &V1.replace("g0h", "G0h")),
            (S, &V1A.replace("v1a", "v1")),
            (OTHER, V1),
            (&public(), &V1.replace("v1", "v1a")),
            (&public(), "v1a,"),
        ] {
            assert_eq!(
                verified(keys, signature, 0),
                Err(Rejection::Signature),
                "{signature}"
            );
        }
        for (keys, signature) in [
            (S, ""),
            (S, "v1"),
            (S, V1A),
            (S, &V1.replace("v1", "V1")),
            (S, &V1.replace(',', ", ")),
            (&public(), V1),
        ] {
            let rejection = verified(keys, signature, 0).unwrap_err();
            let expected = if signature.contains(", ") {
                Rejection::Signature
            } else {
                Rejection::NoSignature
            };
            assert_eq!(rejection, expected, "{signature}");
        }
    }

    #[test]
    fn no_more_signatures_are_looked_at_than_anybody_has_secrets() {
        let wrong = V1.replace("g0h", "G0h");
        for (before, verdict) in [(63, Ok(())), (64, Err(Rejection::Signature))] {
            let signature = format!("{} {V1}", vec![wrong.as_str(); before].join(" "));
            assert_eq!(verified(S, &signature, 0), verdict, "{before}");
        }
    }

    #[test]
    fn id_timestamp_and_body_are_signed_with_it() {
        let keys = VerifyingKeys::parse(S).unwrap();
        let signed = Signed {
            id: ID,
            timestamp: "1614265330",
            signature: V1,
        };
        assert_eq!(keys.verify_signature(signed, BODY), Ok(()));
        let wrong = Err(Rejection::Signature);
        assert_eq!(
            keys.verify_signature(signed, b"{\"test\":2432232314}"),
            wrong
        );
        assert_eq!(
            keys.verify_signature(
                Signed {
                    id: "msg_x",
                    ..signed
                },
                BODY
            ),
            wrong
        );
        let later = Signed {
            timestamp: "1614265331",
            ..signed
        };
        assert_eq!(keys.verify_signature(later, BODY), wrong);
    }

    #[test]
    fn five_minutes_either_way_are_allowed() {
        assert_eq!(verified(S, V1, 300), Ok(()));
        assert_eq!(verified(S, V1, 301), Err(Rejection::TooOld(301)));
        assert_eq!(verified(S, V1, -300), Ok(()));
        assert_eq!(verified(S, V1, -301), Err(Rejection::TooNew(301)));
    }

    #[test]
    fn a_space_is_all_that_stands_between_signatures() {
        let keys = VerifyingKeys::parse(S).unwrap();
        let with = |signature: &str| {
            let signed = Signed {
                id: ID,
                timestamp: "1614265330",
                signature,
            };
            keys.verify_signature(signed, BODY)
        };
        for header in [format!("v1,AAAA {V1}"), format!("  {V1}  v1,AAAA ")] {
            assert_eq!(with(&header), Ok(()), "{header:?}");
        }
        // No library would find it.
        for header in [format!("v1,AAAA\t{V1}"), format!("v1,AAAA\n{V1}")] {
            assert_eq!(with(&header), Err(Rejection::Signature), "{header:?}");
        }
        assert_eq!(with(&format!("{V1}\t")), Err(Rejection::Signature));
    }

    #[test]
    fn headers_of_another_form_are_rejected() {
        let keys = VerifyingKeys::parse(S).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(AT);
        let with = |id, timestamp| {
            let signed = Signed {
                id,
                timestamp,
                signature: V1,
            };
            keys.verify(signed, BODY, now)
        };
        for id in ["", "msg_1.2"] {
            assert_eq!(with(id, "1614265330"), Err(Rejection::Id), "{id}");
        }
        for timestamp in [
            "",
            "+1614265330",
            "-1",
            "1614265330.0",
            "2021-02-25T15:02:10Z",
            "99999999999999999999",
        ] {
            assert_eq!(
                with(ID, timestamp),
                Err(Rejection::Timestamp),
                "{timestamp}"
            );
        }
        // Milliseconds.
        assert_eq!(
            with(ID, "1614265330000"),
            Err(Rejection::TooNew(1_614_265_330_000 - AT))
        );
    }

    #[test]
    fn a_key_that_is_not_right_is_refused_with_its_reason() {
        for (text, error) in [
            ("", KeyError::Empty),
            ("hunter2", KeyError::Prefix),
            (
                "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=",
                KeyError::Prefix,
            ),
            ("whsec_AA==", KeyError::Length(1)),
            ("whpk_AA==", KeyError::Length(1)),
            ("whsec_!", KeyError::Alphabet),
            (PUBLIC, KeyError::Length(0)),
        ] {
            assert_eq!(VerifyingKeys::parse(text).unwrap_err(), error, "{text}");
        }
        let keys = VerifyingKeys::parse(S).unwrap();
        assert_eq!(format!("{keys:?}"), "VerifyingKeys(1 redacted)");
    }
}
