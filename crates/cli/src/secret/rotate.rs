//! `webhooks secret rotate`: a new secret signs from now on, and the old ones go on beside it for a
//! while, so that the partner can change over without losing a webhook.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, SystemTime};

use clap::Args;
use serde::Serialize;
use webhooks_core::identity::SubscriberId;
use webhooks_core::secret::{self, RotateError, Scheme};

use super::facts::{Facts, Handover, facts, random};
use super::missing;
use super::refusal::{Refusal, in_words, refusals};
use crate::args::subscriber_id;
use crate::error::{Error, Exit};
use crate::moment::Time;
use crate::output::safe;
use crate::parameters::{Parameters, Value};
use crate::stack::Stack;
use crate::{Context, aws, confirm, span};

/// The longest overlap. A secret that signs for longer beside another one was not rotated.
const LONGEST_OVERLAP: Duration = Duration::from_secs(30 * 86_400);

/// Arguments of `secret rotate`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Whose secret
    #[arg(value_name = "SUBSCRIBER", value_parser = subscriber_id)]
    pub subscriber: SubscriberId,

    /// How long the old secrets go on signing beside the new one, up to 30d; 0 if they must end
    /// now, as after a leak
    #[arg(long, value_name = "DURATION", value_parser = overlap, default_value = "24h")]
    pub overlap: Duration,

    /// v1: a secret shared with the partner; v1a: ed25519, the partner has only the public key
    /// [default: as the newest secret is]
    #[arg(long, value_name = "SCHEME", value_parser = super::scheme)]
    pub scheme: Option<Scheme>,

    /// Do not ask before the old secrets end now; without a terminal --overlap 0 needs it
    #[arg(long, short)]
    pub yes: bool,
}

fn overlap(text: &str) -> Result<Duration, String> {
    let overlap = match text {
        "0" => Duration::ZERO,
        text => span::parse(text)?,
    };
    if overlap > LONGEST_OVERLAP {
        return Err("an overlap is at most 30d".to_owned());
    }
    Ok(overlap)
}

/// What `secret rotate` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rotated {
    /// Whose secret it is.
    pub subscriber_id: String,
    /// What the partner is given; nothing if the new secret is lost.
    #[serde(flatten)]
    pub handover: Option<Handover>,
    /// From when on every function signs with the new secret, and with no other than those here.
    pub everywhere_at: Time,
    /// The old secrets that go on signing beside it.
    pub old: Vec<Facts>,
    /// What becomes of webhooks that the partner refuses until it has the new one, if the old ones
    /// have ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// The SSM parameter that holds them.
    pub parameter: String,
    /// Its version now.
    pub version: i64,
    /// The version that somebody else has written at the same moment, and that was overwritten.
    pub overwritten: Option<i64>,
    /// How the new secret has gone, if somebody else has replaced it at the same moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Why it is not known whether the new secret is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<String>,
}

/// What became of a new secret after it was written.
#[derive(Debug, PartialEq, Eq)]
enum Afterwards {
    There,
    Lost(String),
    Unknown(String),
}

/// Rotates.
///
/// # Errors
/// If there is nothing to rotate, if the overlap is too short, or if it can not be stored.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Rotated, Error> {
    let (subscriber, overlap) = (&arguments.subscriber, arguments.overlap);
    let ask = overlap.is_zero() && !arguments.yes;
    if ask && !confirm::can_ask() {
        return Err(Error::Usage(
            "--overlap 0 ends the old secrets now, whether or not the partner has the new one, and \
             there is no terminal to ask on: confirm it by --yes"
                .to_owned(),
        ));
    }
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let cache = stack.secret_cache();
    refuse_a_gap(overlap, cache)?;
    let parameters = Parameters::new(&aws, &stack);
    let found = parameters.read(subscriber).await?;
    let found = found.ok_or_else(|| missing(&parameters, subscriber))?;
    let refusals = match overlap.is_zero() {
        // A leak does not wait until the stack's parameters are right.
        true => stack.policy().as_ref().map(refusals).unwrap_or_default(),
        false => Vec::new(),
    };
    if ask && !confirm::agreed(&question(subscriber, &refusals)).await {
        return Err(Error::Failed("nothing was changed".to_owned()));
    }
    // Not when the command was started, nor when the question was asked: what is rotated is what
    // is there now.
    let found = match ask {
        true => parameters.read(subscriber).await?,
        false => Some(found),
    };
    let found = found.ok_or_else(|| missing(&parameters, subscriber))?;
    let now = SystemTime::now();
    let name = parameters.name(subscriber);
    let newest = found.value.secrets();
    let newest = newest.as_ref().ok().and_then(|secrets| {
        let mut active = secrets.active(now);
        active.next().or_else(|| secrets.iter().next())
    });
    let newest = newest.map_or(Scheme::V1, |secret| secret.scheme());
    let scheme = arguments.scheme.unwrap_or(newest);
    let new = random(scheme)?;
    let value = rotated(&found.value, &new, overlap, now).map_err(|error| match error {
        RotateError::Value(_) => Error::Failed(format!(
            "parameter {name}: {error}. Nothing can be signed with it; mend it, or replace it by \
             `webhooks secret rotate {subscriber} --overlap 0`"
        )),
        RotateError::TooLong(_) => Error::Failed(format!("parameter {name}: {error}")),
    })?;
    let version = parameters.replace(subscriber, &value).await?;
    let (lost, unchecked) = match afterwards(&parameters, subscriber, &new, version).await {
        Afterwards::There => (None, None),
        Afterwards::Lost(how) => (Some(how), None),
        Afterwards::Unknown(why) => (None, Some(why)),
    };
    // What was written is not what is there now.
    let old = match lost {
        Some(_) => Vec::new(),
        None => facts(&value, now, false).unwrap_or_default(),
    };
    Ok(Rotated {
        subscriber_id: subscriber.to_string(),
        handover: lost.is_none().then(|| Handover::of(&new, scheme)),
        everywhere_at: Time::new(SystemTime::now() + cache),
        old: old.into_iter().skip(1).collect(),
        refusals,
        parameter: name,
        version,
        overwritten: (version > found.version + 1).then_some(version - 1),
        lost,
        unchecked,
    })
}

/// How often it is asked for what was written, as SSM may answer with what was there before.
const READS: u32 = 4;
const BETWEEN_READS: Duration = Duration::from_millis(500);

/// Whether the new secret still is in the parameter, of which it has made this version: whoever
/// rotates at the same moment has not seen it, and replaces it unawares.
async fn afterwards(
    parameters: &Parameters,
    subscriber: &SubscriberId,
    new: &Value,
    version: i64,
) -> Afterwards {
    let name = parameters.name(subscriber);
    for number in 0..READS {
        if number > 0 {
            tokio::time::sleep(BETWEEN_READS).await;
        }
        match parameters.read(subscriber).await {
            Ok(Some(found)) if has(&found.value, new) => return Afterwards::There,
            Ok(Some(found)) if found.version >= version => {
                let now = found.version;
                return Afterwards::Lost(format!("version {now} of parameter {name} replaced it"));
            }
            // What was there before.
            Ok(Some(_)) => {}
            Ok(None) => return Afterwards::Lost(format!("parameter {name} was deleted")),
            Err(error) => return Afterwards::Unknown(error.to_string()),
        }
    }
    Afterwards::Unknown(format!("SSM does not show version {version} of {name} yet"))
}

/// Whether a secret is among those of a value, with or without an end.
fn has(value: &Value, secret: &Value) -> bool {
    let mut texts = value.reveal().split_whitespace();
    texts.any(|text| text.split(';').next() == Some(secret.reveal()))
}

/// Within the life of a cache some functions sign with the old secret alone. If those that know of
/// the rotation drop it before, no secret verifies all that comes.
fn refuse_a_gap(overlap: Duration, cache: Duration) -> Result<(), Error> {
    if overlap.is_zero() || overlap >= cache {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "functions that are warm sign with the old secret alone for up to {}, so the overlap must \
         not be shorter; --overlap 0 ends the old secret now, as after a leak",
        span::exact(cache.as_secs())
    )))
}

/// What is asked before the old secrets end at once.
fn question(subscriber: &SubscriberId, refusals: &[Refusal]) -> String {
    let cost = match refusals {
        [] => String::new(),
        refusals => format!(" What it refuses by {}.", in_words(refusals)),
    };
    format!(
        "The old secrets end now, and {subscriber} can verify nothing until it has the new one.{cost} \
         Go on?"
    )
}

fn rotated(
    value: &Value,
    new: &Value,
    overlap: Duration,
    now: SystemTime,
) -> Result<Value, RotateError> {
    // Of a value that goes altogether nothing has to be right.
    if overlap.is_zero() {
        return Ok(new.clone());
    }
    let value = secret::rotate(value.reveal(), new.reveal(), now + overlap, now)?;
    Ok(Value::new(value))
}

impl Rotated {
    /// How the command ends.
    pub(super) fn exit(&self) -> Exit {
        let is_alone = self.overwritten.is_none() && self.lost.is_none();
        if is_alone && self.unchecked.is_none() {
            Exit::Done
        } else {
            Exit::Failed
        }
    }
}

impl Display for Rotated {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let everywhere = self.everywhere_at;
        let id = &self.subscriber_id;
        let Some(handover) = &self.handover else {
            let how = safe(self.lost.as_deref().unwrap_or_default());
            write!(
                f,
                "Warning: somebody else replaced the secret of {id} at this moment: {how}.\nThe new \
                 secret of this rotation is gone. It is not shown here, and must NOT be given to the\n\
                 partner by anybody who has it. What signs now is told by\n  webhooks secret show {id}"
            )?;
            return self.overwriting(f);
        };
        let (name, text) = handover.line();
        write!(
            f,
            "{id} has a new secret. {}\n\n  {name}  {text}\n\n",
            handover.heading(id)
        )?;
        if self.old.is_empty() {
            write!(
                f,
                "The old one has ended. Functions that are warm still sign with it, until \
                 {everywhere} at the latest\n(where SSM can not be asked, half an hour from now \
                 at the latest).\nUntil the partner has the new one it can verify nothing."
            )?;
            if !self.refusals.is_empty() {
                write!(
                    f,
                    " By this stack's retry policy a webhook that it\nrefuses by {}.",
                    in_words(&self.refusals)
                )?;
            }
            write!(
                f,
                " When it has the new one, send again what is dead:\n  webhooks redrive \
                 --subscriber {id}"
            )?;
        } else {
            write!(
                f,
                "It signs in every function from {everywhere} on (where SSM can not be asked, half \
                 an hour from\nnow at the latest). Beside it:"
            )?;
            for facts in &self.old {
                write!(f, "\n  the old one ({}) {}", facts.scheme, facts.standing())?;
            }
        }
        if let Some(why) = &self.unchecked {
            write!(
                f,
                "\n\nWarning: it was written, but could not be read again: {}.\nMake sure that nobody \
                 has replaced it at the same moment before the partner gets it:\n  webhooks secret \
                 show {id}",
                safe(why)
            )?;
        }
        self.overwriting(f)
    }
}

impl Rotated {
    /// What is to be done about a change that was overwritten.
    fn overwriting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(version) = self.overwritten {
            write!(
                f,
                "\n\nWarning: somebody else changed the secret at this moment, and that change was \
                 overwritten. It is kept as\nversion {version}:\n  aws ssm get-parameter \
                 --with-decryption --name {}:{version}\nIf its first secret was given to the partner \
                 already, rotate once more and give the partner that one.",
                safe(&self.parameter)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlap_is_nothing_at_all_or_a_duration_of_at_most_30_days() {
        let seconds = |text| overlap(text).map(|overlap| overlap.as_secs());
        assert_eq!(seconds("0"), Ok(0));
        assert_eq!(seconds("0s"), Ok(0));
        assert_eq!(seconds("30d"), Ok(2_592_000));
        assert_eq!(
            seconds("30d1s"),
            Err("an overlap is at most 30d".to_owned())
        );
        assert!(seconds("24").is_err());
    }

    #[test]
    fn an_overlap_that_warm_functions_would_outlive_is_refused() {
        let gap = |overlap| {
            let cache = Duration::from_secs(300);
            refuse_a_gap(Duration::from_secs(overlap), cache)
        };
        assert_eq!(gap(0), Ok(()));
        assert_eq!(gap(300), Ok(()));
        for overlap in [1, 299] {
            assert_eq!(
                gap(overlap),
                Err(Error::Usage(
                    "functions that are warm sign with the old secret alone for up to 5 min, so \
                     the overlap must not be shorter; --overlap 0 ends the old secret now, as \
                     after a leak"
                        .into()
                ))
            );
        }
    }

    #[test]
    fn the_question_says_what_the_end_of_the_old_secrets_costs() {
        let subscriber = SubscriberId::parse("kasse-nord").unwrap();
        let asked = |refusals: &[Refusal]| question(&subscriber, refusals);
        assert_eq!(
            asked(&refusals(&webhooks_core::policy::RetryPolicy::bounded())),
            "The old secrets end now, and kasse-nord can verify nothing until it has the new one. \
             What it refuses by 400, 401 or 403 is dead at once. Go on?"
        );
        assert_eq!(
            asked(&[]),
            "The old secrets end now, and kasse-nord can verify nothing until it has the new one. Go \
             on?"
        );
    }

    #[test]
    fn a_secret_is_there_with_or_without_an_end() {
        let secrets = [(); 3].map(|()| random(Scheme::V1).unwrap());
        let [one, two, three] = secrets.each_ref().map(Value::reveal);
        let value = Value::new(format!("{one} {two};until=2026-12-01T00:00:00Z"));
        assert!(has(&value, &Value::new(one.to_owned())));
        assert!(has(&value, &Value::new(two.to_owned())));
        assert!(!has(&value, &Value::new(three.to_owned())));
    }

    #[test]
    fn a_broken_value_can_only_be_replaced_altogether() {
        let (broken, new) = (Value::new("hunter2".into()), random(Scheme::V1).unwrap());
        let now = SystemTime::UNIX_EPOCH;
        assert_eq!(rotated(&broken, &new, Duration::ZERO, now), Ok(new.clone()));
        assert!(rotated(&broken, &new, Duration::from_secs(300), now).is_err());
    }
}
