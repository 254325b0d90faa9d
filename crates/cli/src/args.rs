//! The command line.

use clap::{Args, Parser, Subcommand};
use webhooks_core::identity::SubscriberId;

use crate::{
    disable, doctor, enable, list, log, ping, publish, redrive, schedule, secret, show, stats,
    subscribe, unsubscribe, verify,
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
}

/// A subscriber's name.
pub(crate) fn subscriber_id(text: &str) -> Result<SubscriberId, String> {
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
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
