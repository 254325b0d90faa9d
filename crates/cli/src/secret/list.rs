//! `webhooks secret list`: whose secrets end soon, and whose are missing or broken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, SystemTime};

use clap::Args;
use serde::Serialize;
use webhooks_core::identity::SubscriberId;

use super::facts::{Ending, Facts, SOON_TEXT, ending, facts, last_end};
use crate::error::Error;
use crate::grid::Grid;
use crate::moment::Time;
use crate::parameters::{Parameter, Parameters};
use crate::stack::Stack;
use crate::subscriptions::Subscriptions;
use crate::{Context, aws, output, span};

/// Arguments of `secret list`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Warn of what ends within this time
    #[arg(long, value_name = "DURATION", value_parser = span::parse, default_value = SOON_TEXT)]
    pub within: Duration,
}

/// What `secret list` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// What ends before then is warned of.
    pub until: Time,
    /// Everybody who has a subscription, by name.
    pub partners: Vec<Partner>,
}

/// One subscriber's secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Partner {
    /// Who it is.
    pub subscriber_id: String,
    /// Whether any of the subscriptions is enabled.
    pub enabled: bool,
    /// The secrets, newest first.
    pub secrets: Vec<Facts>,
    /// Why there is none to sign with.
    pub problem: Option<String>,
    /// When the last of them ends, if all do.
    pub ends_at: Option<Time>,
    /// What is to be done about it.
    pub warning: Option<String>,
}

/// Reads everybody's.
///
/// # Errors
/// If the subscriptions, or all of the secrets, can not be read.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<List, Error> {
    let now = context.now;
    let until = now.checked_add(arguments.within).unwrap_or(now);
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    let (mut enabled, mut odd) = (BTreeMap::new(), Vec::new());
    for entry in Subscriptions::new(&aws, &stack).all().await? {
        match SubscriberId::parse(&entry.subscriber_id) {
            Ok(id) => *enabled.entry(id).or_insert(false) |= entry.is_enabled(),
            Err(error) => odd.push(format!(
                "{}: {error}: `webhooks list` prints the command that deletes it",
                entry.subscriber_id
            )),
        }
    }
    output::notes(&odd);
    let parameters = Parameters::new(&aws, &stack);
    let subscribers: BTreeSet<SubscriberId> = enabled.keys().cloned().collect();
    let read = parameters.read_many(&subscribers).await;
    if let Some(error) = nothing_but_errors(&read) {
        return Err(error);
    }
    let partners = read.into_iter().map(|(id, read)| {
        let is_enabled = enabled.get(&id).copied().unwrap_or(false);
        Partner::new(&id, &parameters.name(&id), is_enabled, read, now, until)
    });
    Ok(List {
        until: Time::new(until),
        partners: partners.collect(),
    })
}

type Read = Result<Option<Parameter>, Error>;

/// The first error, if there is nothing else.
fn nothing_but_errors(read: &BTreeMap<SubscriberId, Read>) -> Option<Error> {
    if read.values().any(Result::is_ok) {
        return None;
    }
    read.values().find_map(|read| read.as_ref().err()).cloned()
}

impl Partner {
    fn new(
        id: &SubscriberId,
        parameter: &str,
        enabled: bool,
        read: Read,
        now: SystemTime,
        until: SystemTime,
    ) -> Self {
        let secrets = match read {
            Ok(Some(found)) => {
                facts(&found.value, now, false).map_err(|error| format!("broken: {error}"))
            }
            Ok(None) => Err(format!("missing: there is no parameter {parameter}")),
            Err(error) => Err(format!("unreadable: {error}")),
        };
        let (secrets, mut problem) = match secrets {
            Ok(secrets) => (secrets, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let ends_at = last_end(&secrets);
        let ending = ending(&secrets, now, until);
        if let (None, Ending::Ended(end)) = (&problem, ending) {
            problem = Some(format!("ended: the last secret ended at {end}"));
        }
        let warning = match (&problem, ending) {
            (Some(problem), _) => enabled.then(|| format!("nothing is sent, {problem}")),
            (None, Ending::Soon(end)) => Some(format!(
                "the last secret ends at {end} and none follows: `webhooks secret rotate {id}`"
            )),
            (None, Ending::Later | Ending::Ended(_)) => None,
        };
        Self {
            subscriber_id: id.to_string(),
            enabled,
            secrets,
            problem,
            ends_at,
            warning,
        }
    }
}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.partners.is_empty() {
            return f.write_str("Nobody is subscribed to anything.");
        }
        let mut grid = Grid::new(&["subscriber", "enabled", "scheme", "state", "public key"]);
        for partner in &self.partners {
            let enabled = if partner.enabled { "yes" } else { "no" };
            for facts in &partner.secrets {
                grid.push([
                    partner.subscriber_id.clone(),
                    enabled.to_owned(),
                    facts.scheme.to_owned(),
                    facts.standing(),
                    facts.public_key.clone().unwrap_or_default(),
                ]);
            }
            if partner.secrets.is_empty() {
                let problem = partner.problem.clone().unwrap_or_default();
                let (id, none) = (partner.subscriber_id.clone(), String::new());
                grid.push([id, enabled.to_owned(), none.clone(), problem, none]);
            }
        }
        grid.fmt(f)?;
        let warnings = self.partners.iter().filter_map(|partner| {
            let warning = partner.warning.as_ref()?;
            let warning = format!("Warning: {}: {warning}.", partner.subscriber_id);
            Some(output::safe(&warning))
        });
        for (number, warning) in warnings.enumerate() {
            write!(f, "{}{warning}", if number == 0 { "\n\n" } else { "\n" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use webhooks_core::timestamp;

    use super::*;
    use crate::parameters::Value;
    use crate::secret::facts::random;
    use webhooks_core::secret::Scheme;

    fn warning(ends: &[&str], enabled: bool) -> Option<String> {
        let secrets = ends.iter().map(|end| {
            let secret = random(Scheme::V1).unwrap();
            format!("{}{end}", secret.reveal())
        });
        let parameter = Parameter {
            value: Value::new(secrets.collect::<Vec<_>>().join(" ")),
            version: 1,
            is_secure: true,
        };
        let at = |text| timestamp::parse(text).unwrap();
        let (now, until) = (at("2026-12-01T00:00:00Z"), at("2026-12-31T00:00:00Z"));
        let id = SubscriberId::parse("a").unwrap();
        Partner::new(
            &id,
            "/w/a/signing-secret",
            enabled,
            Ok(Some(parameter)),
            now,
            until,
        )
        .warning
    }

    #[test]
    fn only_a_last_secret_that_ends_soon_is_warned_of() {
        for fine in [
            &[""][..],
            &["", ";until=2026-12-02T00:00:00Z"],
            &[";until=2026-12-02T00:00:00Z", ""],
            &[";until=2026-12-31T00:00:00Z"],
            &[";until=2027-06-01T00:00:00Z", ";until=2026-11-01T00:00:00Z"],
        ] {
            assert_eq!(warning(fine, true), None, "{fine:?}");
        }
        assert_eq!(
            warning(
                &[";until=2026-12-02T00:00:00Z", ";until=2026-12-03T00:00:00Z"],
                true
            ),
            Some(
                "the last secret ends at 2026-12-03T00:00:00.000Z and none follows: `webhooks \
                 secret rotate a`"
                    .into()
            )
        );
    }

    #[test]
    fn a_partner_without_a_secret_is_warned_of_if_anything_is_to_be_sent() {
        let ended = [";until=2026-12-01T00:00:00Z"];
        assert_eq!(
            warning(&ended, true),
            Some(
                "nothing is sent, ended: the last secret ended at 2026-12-01T00:00:00.000Z".into()
            )
        );
        assert_eq!(warning(&ended, false), None);
        assert_eq!(warning(&[";until=tomorrow"], false), None);
        assert!(
            warning(&[";until=tomorrow"], true)
                .unwrap()
                .starts_with("nothing is sent, broken: a signing secret may be followed by")
        );
    }
}
