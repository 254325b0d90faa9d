//! What is told of a secret: to anybody when it ends and how it signs, to the partner what the
//! partner verifies with.

use std::time::{Duration, SystemTime};

use rand::TryRng as _;
use rand::rngs::SysRng;
use serde::{Serialize, Serializer};
use webhooks_core::secret::{SEED_BYTES, Scheme, SecretsError, secret_text};

use crate::error::Error;
use crate::moment::Time;
use crate::parameters::Value;

/// What may be told of one secret, and the secret itself only if it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// How it signs: `v1` or `v1a`.
    pub scheme: &'static str,
    /// Whether it signs now.
    pub active: bool,
    /// When it ends, if it does.
    pub until: Option<Time>,
    /// What a `v1a` signature is verified with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// The secret itself.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "revealed")]
    pub secret: Option<Value>,
}

/// What is known of the secrets in a value, newest first.
///
/// # Errors
/// If the value can not be signed with.
pub fn facts(value: &Value, now: SystemTime, reveal: bool) -> Result<Vec<Facts>, SecretsError> {
    let secrets = value.secrets()?;
    let texts = value.reveal().split_whitespace();
    Ok(texts
        .zip(secrets.iter())
        .map(|(text, secret)| Facts {
            scheme: secret.scheme().name(),
            active: secret.is_active(now),
            until: secret.until().map(Time::new),
            public_key: secret.public_key(),
            secret: reveal.then(|| {
                let bare = text.split(';').next().unwrap_or(text);
                Value::new(bare.to_owned())
            }),
        })
        .collect())
}

/// The one that a partner verifies with from now on: the newest of those that sign.
#[must_use]
pub fn newest_active(secrets: &[Facts]) -> Option<&Facts> {
    secrets.iter().find(|secret| secret.active)
}

impl Facts {
    /// Whether and until when it signs, in words.
    #[must_use]
    pub fn standing(&self) -> String {
        match (self.active, self.until) {
            (true, None) => "signs".to_owned(),
            (true, Some(until)) => format!("signs until {until}"),
            (false, Some(until)) => format!("ended {until}"),
            (false, None) => "does not sign".to_owned(),
        }
    }
}

/// How soon an end is warned of, unless somebody wants to know earlier or later: time for a partner
/// to put a new secret in.
pub const SOON: Duration = Duration::from_hours(30 * 24);

/// [`SOON`] on the command line.
pub const SOON_TEXT: &str = "30d";

/// When a subscriber can not be signed for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Not before the time that was asked about.
    Later,
    /// Then, and before the time that was asked about.
    Soon(Time),
    /// Since then.
    Ended(Time),
}

/// When the last of a subscriber's secrets ends, as seen from `now`: whether before `until`.
#[must_use]
pub fn ending(secrets: &[Facts], now: SystemTime, until: SystemTime) -> Ending {
    match last_end(secrets) {
        Some(end) if end.get() <= now => Ending::Ended(end),
        Some(end) if end.get() < until => Ending::Soon(end),
        Some(_) | None => Ending::Later,
    }
}

/// When the last of the secrets ends, if all of them do.
#[must_use]
pub fn last_end(secrets: &[Facts]) -> Option<Time> {
    let ends: Option<Vec<Time>> = secrets.iter().map(|facts| facts.until).collect();
    ends?.into_iter().max()
}

/// What a partner is given to verify with: the shared secret, or the public key of one that is
/// ours alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Handover {
    /// How it signs: `v1` or `v1a`.
    pub scheme: &'static str,
    /// The shared secret, for `v1`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "revealed")]
    pub secret: Option<Value>,
    /// The public key, for `v1a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

impl Handover {
    /// That of a secret which was just made.
    #[must_use]
    pub fn of(secret: &Value, scheme: Scheme) -> Self {
        let secrets = secret.secrets().ok();
        let first = secrets.as_ref().and_then(|secrets| secrets.iter().next());
        Self {
            scheme: scheme.name(),
            secret: match scheme {
                Scheme::V1 => Some(secret.clone()),
                Scheme::V1a => None,
            },
            public_key: first.and_then(|secret| secret.public_key()),
        }
    }

    /// What stands before it: a shared secret is kept from others, and of a public key the partner
    /// must be sure whose it is. Both can be seen again.
    #[must_use]
    pub fn heading(&self, subscriber_id: &str) -> String {
        let show = format!("`webhooks secret show {subscriber_id}");
        match &self.public_key {
            None => {
                format!("For the partner, over a safe channel ({show} --reveal` shows it again):")
            }
            Some(_) => format!(
                "For the partner, which is to be sure that it is yours ({show}` shows it again):"
            ),
        }
    }

    /// Its name and itself, for a line.
    #[must_use]
    pub fn line(&self) -> (&'static str, &str) {
        match (&self.secret, &self.public_key) {
            (Some(secret), _) => ("secret", secret.reveal()),
            (None, Some(key)) => ("public key", key),
            (None, None) => ("secret", ""),
        }
    }
}

/// A new secret.
///
/// # Errors
/// If the operating system has no random numbers to give.
pub(crate) fn random(scheme: Scheme) -> Result<Value, Error> {
    let mut key = [0; SEED_BYTES];
    SysRng
        .try_fill_bytes(&mut key)
        .map_err(|error| Error::Failed(format!("no random numbers from the system: {error}")))?;
    Ok(Value::new(secret_text(scheme, &key)))
}

fn revealed<S: Serializer>(secret: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(Value::reveal).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use webhooks_core::timestamp;

    use super::*;

    #[test]
    fn a_new_secret_is_another_one_each_time_and_can_be_signed_with() {
        for scheme in Scheme::ALL {
            let (one, other) = (random(scheme).unwrap(), random(scheme).unwrap());
            assert_ne!(one.reveal(), other.reveal());
            let now = SystemTime::UNIX_EPOCH;
            let facts = facts(&one, now, false).unwrap();
            assert_eq!(facts.len(), 1);
            assert_eq!(facts[0].scheme, scheme.name());
            assert_eq!(facts[0].secret, None);
            assert_eq!(facts[0].standing(), "signs");
        }
    }

    #[test]
    fn the_last_secret_to_end_counts_and_one_without_an_end_never_does() {
        let at = |text| timestamp::parse(text).unwrap();
        let (now, until) = (at("2026-12-01T00:00:00Z"), at("2026-12-31T00:00:00Z"));
        let ending = |ends: &[&str]| {
            let texts = ends.iter().map(|end| {
                let secret = random(Scheme::V1).unwrap();
                format!("{}{end}", secret.reveal())
            });
            let value = Value::new(texts.collect::<Vec<_>>().join(" "));
            ending(&facts(&value, now, false).unwrap(), now, until)
        };
        let time = |text| Time::new(at(text));
        for (ends, expected) in [
            (&[""][..], Ending::Later),
            (&[";until=2026-12-02T00:00:00Z", ""], Ending::Later),
            (&[";until=2026-12-31T00:00:00Z"], Ending::Later),
            (
                &[";until=2026-12-30T23:59:59Z", ";until=2026-12-02T00:00:00Z"],
                Ending::Soon(time("2026-12-30T23:59:59Z")),
            ),
            (
                &[";until=2026-12-01T00:00:01Z"],
                Ending::Soon(time("2026-12-01T00:00:01Z")),
            ),
            (
                &[";until=2026-12-01T00:00:00Z", ";until=2026-11-02T00:00:00Z"],
                Ending::Ended(time("2026-12-01T00:00:00Z")),
            ),
        ] {
            assert_eq!(ending(ends), expected, "{ends:?}");
        }
        assert_eq!(crate::span::parse(SOON_TEXT), Ok(SOON));
    }

    #[test]
    fn a_partner_gets_the_shared_secret_or_the_public_key_and_never_the_private_one() {
        let shared = random(Scheme::V1).unwrap();
        assert_eq!(
            Handover::of(&shared, Scheme::V1).line(),
            ("secret", shared.reveal())
        );
        let private = random(Scheme::V1a).unwrap();
        let handover = Handover::of(&private, Scheme::V1a);
        let (name, key) = handover.line();
        assert_eq!(name, "public key");
        assert!(key.starts_with("whpk_"), "{key}");
        let json = serde_json::to_string(&handover).unwrap();
        assert!(!json.contains("whsk_"), "{json}");
    }

    #[test]
    fn what_is_told_of_a_secret_says_when_it_ends() {
        let value = Value::new(format!(
            "{} {};until=2026-12-01T12:00:00Z",
            random(Scheme::V1).unwrap().reveal(),
            random(Scheme::V1a).unwrap().reveal()
        ));
        let at = |text| timestamp::parse(text).unwrap();
        let standing = |now| {
            let facts = facts(&value, now, true).unwrap();
            assert!(!facts[1].secret.as_ref().unwrap().reveal().contains(';'));
            facts[1].standing()
        };
        assert_eq!(
            standing(at("2026-12-01T11:00:00Z")),
            "signs until 2026-12-01T12:00:00.000Z"
        );
        assert_eq!(
            standing(at("2026-12-01T12:00:00Z")),
            "ended 2026-12-01T12:00:00.000Z"
        );
    }
}
