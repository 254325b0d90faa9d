//! The command line.

use clap::builder::StyledStr;
use clap::error::{ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};
use webhooks_core::identity::SubscriberId;

use crate::output::safe;
use crate::{
    cost, disable, doctor, enable, list, log, ping, publish, redrive, schedule, secret, show,
    stats, subscribe, unsubscribe, verify,
};

/// Registers the partners of a stack of sqs-webhooks, and takes care of their deliveries.
#[derive(Debug, Parser)]
#[command(name = "webhooks", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// The options that all verbs have.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The options that all verbs have.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every verb")]
pub struct Global {
    /// CloudFormation stack that is meant [default: sqs-webhooks]
    #[arg(long, global = true, value_name = "NAME", env = "WEBHOOKS_STACK")]
    pub stack: Option<String>,

    /// AWS profile [default: as the AWS CLI, AWS_PROFILE or `default`]
    #[arg(long, global = true, value_name = "NAME")]
    pub profile: Option<String>,

    /// AWS Region [default: as the AWS CLI, AWS_REGION or the profile's]
    #[arg(long, global = true, value_name = "NAME")]
    pub region: Option<String>,

    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Register a partner, or change where its webhooks go
    Subscribe(subscribe::Arguments),
    /// End a partner's subscriptions
    Unsubscribe(unsubscribe::Arguments),
    /// List all subscriptions
    List(list::Arguments),
    /// Show all about one partner, but not its secret
    Show(show::Arguments),
    /// Send webhooks again by subscriptions that were disabled
    Enable(enable::Arguments),
    /// Send no webhooks by some subscriptions until they are enabled again
    Disable(disable::Arguments),
    /// Make, show, rotate and list signing secrets
    Secret(secret::Arguments),
    /// Show what happened to a delivery, or list deliveries
    Log(log::Arguments),
    /// Count deliveries by partner, and warn of those that fail
    Stats(stats::Arguments),
    /// Print the retry schedule, for partners, as Markdown
    Schedule(schedule::Arguments),
    /// Send dead deliveries again
    Redrive(Box<redrive::Arguments>),
    /// Publish events of a file to the stack's bus
    Publish(publish::Arguments),
    /// Send a subscriber a signed ping, and show what comes back
    Ping(ping::Arguments),
    /// Check a deployed stack, and say how to mend what is wrong
    Doctor(doctor::Arguments),
    /// Tell why the signature of a request does not match
    Verify(verify::Arguments),
    /// Tell what AWS asks for a volume of webhooks, by a model
    Cost(cost::Arguments),
}

/// What a secret begins with.
const SECRET_PREFIXES: [&str; 2] = ["whsec_", "whsk_"];

/// A subscriber's name. Secrets can look like one, and must not become part of what AWS is asked
/// for and what is printed.
pub(crate) fn subscriber_id(text: &str) -> Result<SubscriberId, String> {
    if SECRET_PREFIXES
        .iter()
        .any(|prefix| text.starts_with(prefix))
    {
        return Err("a signing secret is no subscriber's name".to_owned());
    }
    SubscriberId::parse(text).map_err(|error| error.to_string())
}

/// The most characters of what people say of a subscription. It is shown in one cell of a table.
const SAID_MAX_CHARS: usize = 256;

/// What people say of a subscription: one line, and not a long one.
pub(crate) fn said(text: &str) -> Result<String, String> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.contains(breaks) {
        return Err("expected a single line, without control characters".to_owned());
    }
    let chars = text.chars().count();
    if chars > SAID_MAX_CHARS {
        return Err(format!(
            "it has {chars} characters, at most {SAID_MAX_CHARS} are allowed"
        ));
    }
    Ok(text.to_owned())
}

/// The same, where something must be said.
pub(crate) fn said_at_all(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected a text that is not empty".to_owned()),
        _ => said(text),
    }
}

/// Whether it is no error but what was asked for, or the help of a verb that was given nothing.
/// Nothing of the command line is in it.
#[must_use]
pub fn is_told(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// What is said of a command line that is not understood. Of the arguments in it none begins a line,
/// and a secret among them, which has strayed there, is not repeated.
#[must_use]
pub fn refusal(mut error: clap::Error) -> String {
    let context: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, shown(value)?)))
        .collect();
    for (kind, value) in context {
        error.insert(kind, value);
    }
    error.render().to_string().trim_end().to_owned()
}

/// Nothing for what has no text of the command line in it.
fn shown(value: &ContextValue) -> Option<ContextValue> {
    let text = |text: &String| safe(&without_secret(text));
    let styled = |it: &StyledStr| StyledStr::from(text(&it.to_string()));
    match value {
        ContextValue::String(it) => Some(ContextValue::String(text(it))),
        ContextValue::Strings(all) => Some(ContextValue::Strings(all.iter().map(text).collect())),
        ContextValue::StyledStrs(all) => {
            Some(ContextValue::StyledStrs(all.iter().map(styled).collect()))
        }
        // `StyledStr` is the usage, which has line breaks of its own.
        _ => None,
    }
}

/// The same of a text in which something comes after the secret: its words without the secrets.
pub(crate) fn without_secrets(text: &str) -> String {
    let is_secret = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
    let (mut told, mut rest) = (String::new(), text);
    while let Some((start, prefix)) = SECRET_PREFIXES
        .into_iter()
        .filter_map(|prefix| Some((rest.find(prefix)?, prefix)))
        .min()
    {
        let (before, secret) = rest.split_at(start);
        let secret = secret.strip_prefix(prefix).unwrap_or_default();
        let after = secret.trim_start_matches(is_secret);
        told += before;
        told += if after.len() < secret.len() {
            "whsec_…"
        } else {
            prefix
        };
        rest = after;
    }
    told + rest
}

/// The text up to where a secret begins.
fn without_secret(text: &str) -> String {
    let starts = SECRET_PREFIXES.into_iter();
    match starts.filter_map(|prefix| text.find(prefix)).min() {
        Some(start) => format!("{}whsec_…", text.get(..start).unwrap_or_default()),
        None => text.to_owned(),
    }
}

const EXIT_CODES: &str = "\
The result goes to standard output, everything else to standard error.

Exit codes:
  0    done
  1    failed, or not all of it was done
  2    the command line is not understood, asks for what can not be meant, or lacks --yes
  3    what was asked for is not there
  130  interrupted

AWS credentials, region and endpoint are found as by the AWS CLI: environment, profiles, SSO.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn what_is_said_of_a_subscription_is_one_line_of_at_most_256_characters() {
        let most = "ä".repeat(256);
        assert_eq!(said(&most), Ok(most.clone()));
        assert_eq!(
            said(&format!("{most}x")),
            Err("it has 257 characters, at most 256 are allowed".into())
        );
        for lines in ["a\nb", "a\r", "a\tb", "a\u{2028}b", "\u{1b}[2J"] {
            assert_eq!(
                said(lines),
                Err("expected a single line, without control characters".into()),
                "{lines:?}"
            );
        }
        assert_eq!(said(""), Ok(String::new()));
        assert!(said_at_all(" ").is_err());
    }

    #[test]
    fn what_is_refused_is_repeated_on_one_line_and_without_secrets() {
        let said = |arguments: &[&str]| {
            let arguments = std::iter::once("webhooks").chain(arguments.iter().copied());
            refusal(Arguments::try_parse_from(arguments).unwrap_err())
        };
        let forged = "x\nwebhooks: all is well\u{1b}[2J\u{202e}";
        let shown = r"x\nwebhooks: all is well\u{1b}[2J\u{202e}";
        let option = format!("--{forged}");
        for arguments in [
            &["stats", "--since", forged][..],
            &["stats", forged],
            &["stats", &option],
            &["log", "--subscriber", "a", "--state", forged],
            &[forged],
        ] {
            let said = said(arguments);
            assert!(said.contains(shown), "{said}");
            assert!(!said.contains("\nwebhooks:"), "{said}");
            assert_eq!(crate::output::safe_lines(&said), said);
        }
        for secret in ["whsec_hidden", "whsk_hidden hidden", "a whsec_hidden"] {
            for arguments in [
                &["stats", secret][..],
                &["secret", "show", secret],
                &["secret", "show", "a", secret],
                &["secret", "rotate", "a", "--overlap", secret],
                &["log", "--subscriber", "a", "--state", secret],
                &[secret],
                &["stats", &format!("--{secret}")],
            ] {
                let said = said(arguments);
                assert!(said.contains("whsec_…"), "{arguments:?}: {said}");
                assert!(!said.contains("hidden"), "{arguments:?}: {said}");
            }
        }
    }

    #[test]
    fn the_words_around_a_secret_stay() {
        for (text, told) in [
            ("no `whsec_aGk+/w==` here", "no `whsec_…` here"),
            ("whsk_a whsec_b", "whsec_… whsec_…"),
            (
                "it begins with `whsec_`, `whsk_`",
                "it begins with `whsec_`, `whsk_`",
            ),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_secrets(text), told);
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
