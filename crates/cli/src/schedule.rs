//! `webhooks schedule`: the retry policy as a contract that partners can be handed, made from the
//! same value that deliver works by.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use webhooks_core::policy::{
    self, JOB_RETENTION, Jitter, RetryPolicy, Treatment, VISIBILITY_TIMEOUT_SECONDS,
};
use webhooks_core::record::KEPT_FOR;

use crate::error::Error;
use crate::output::Report;
use crate::stack::Stack;
use crate::{Context, aws, span};

/// More equal delays than this at the end of a schedule become one line.
const LONGEST_TAIL: usize = 6;

/// Arguments of `schedule`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Policy to print [default: the stack's if --stack is given, else standard]
    #[arg(long, value_name = "POLICY", value_parser = policy::NAMES)]
    pub policy: Option<String>,
}

/// A retry policy as partners are told of it. Durations are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contract {
    /// The policy's name.
    pub policy: &'static str,
    /// The stack whose policy it is, with its changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// How many attempts there are at most.
    pub attempts_at_most: u32,
    /// How many there are as a rule before the horizon ends them, if that is what ends them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_usually: Option<u32>,
    /// No attempt begins later than this after the first.
    pub horizon_seconds: u64,
    /// Whether the schedule itself reaches the horizon, or only a receiver that asks for long waits.
    pub horizon_is_reached: bool,
    /// How long an attempt may take.
    pub timeout_seconds: u64,
    /// How chance changes the delays.
    pub jitter: Chance,
    /// The factor on the delays, if it is not 1: a stack for demos and tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_scale: Option<f64>,
    /// The attempts, from the first on.
    pub attempts: Vec<Line>,
    /// The longest that the queue can hide a delivery, and so the longest delay.
    pub longest_delay_seconds: u32,
    /// What each answer leads to.
    pub answers: Vec<Answer>,
    /// The longest wait that `Retry-After` can ask for.
    pub longest_retry_after_seconds: u32,
    /// How long a receiver must remember ids to recognise what the queue repeats.
    pub remember_ids_seconds: u64,
    /// How long to recognise deliveries that were redriven, too.
    pub remember_redriven_ids_seconds: u64,
}

/// One attempt, or all from one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Its number, from 1.
    pub attempt: u32,
    /// The last one for which the line stands.
    pub last_attempt: u32,
    /// How long after the end of the one before, from the shortest to the longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_previous_seconds: Option<Range>,
    /// How long after the first, the time of the attempts themselves not counted.
    pub since_first_seconds: Range,
    /// What the schedule asks for where that is more than the queue can keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clamped_from_seconds: Option<u64>,
}

/// The bounds of a duration, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The shortest.
    pub from: u64,
    /// The longest.
    pub to: u64,
}

/// What some answers lead to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Statuses, or the lack of one.
    pub answer: String,
    /// What it leads to.
    pub leads_to: End,
    /// After how many attempts of a delivery with such an answer it is dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_at_most: Option<u32>,
}

/// How much of a delay is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Chance {
    /// Half of it.
    Half,
    /// All of it.
    All,
    /// A little.
    Small,
}

/// What an answer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// The receiver has it.
    Delivered,
    /// The subscription is switched off.
    Disabled,
    /// There is another attempt.
    Retried,
    /// It is given up.
    Dead,
}

/// Makes the contract of the policy that was asked for.
///
/// # Errors
/// If the stack's policy is wanted and can not be found out.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Contract, Error> {
    if let Some(name) = &arguments.policy {
        let policy = RetryPolicy::by_name(name)
            .ok_or_else(|| Error::Usage(format!("there is no policy `{name}`")))?;
        return Ok(Contract::published(policy));
    }
    if context.global.stack.is_none() {
        return Ok(Contract::published(RetryPolicy::standard()));
    }
    let aws = aws::config(&context.global).await?;
    let stack = Stack::read(context, &aws).await?;
    Ok(Contract {
        stack: Some(stack.name.clone()),
        ..Contract::of(&stack.policy()?)
    })
}

impl Contract {
    fn published(policy: RetryPolicy) -> Self {
        Self::of(&policy.for_visibility_timeout(VISIBILITY_TIMEOUT_SECONDS))
    }

    fn of(policy: &RetryPolicy) -> Self {
        let horizon = policy.longest_run_seconds();
        let lines = lines(policy, horizon);
        let usual = usual_attempts(policy, horizon);
        let last = lines.last();
        let attempts_at_most = last.map_or(1, |line| line.attempt);
        let latest = last.map_or(0, |line| line.since_first_seconds.to);
        let next = u64::from(policy.backoff_seconds(attempts_at_most, 1.0));
        Self {
            policy: policy.name,
            stack: None,
            attempts_at_most,
            attempts_usually: (usual < attempts_at_most).then_some(usual),
            horizon_seconds: horizon,
            horizon_is_reached: policy.horizon.is_some() && latest + next > horizon,
            timeout_seconds: policy.timeout.as_secs(),
            jitter: match policy.jitter {
                Jitter::Equal => Chance::Half,
                Jitter::Full => Chance::All,
                Jitter::Around(_) => Chance::Small,
            },
            time_scale: (policy.time_scale < 1.0).then_some(policy.time_scale),
            attempts: folded(lines),
            longest_delay_seconds: policy.longest_delay_seconds,
            answers: answers(policy),
            longest_retry_after_seconds: policy.longest_retry_after_seconds(),
            remember_ids_seconds: JOB_RETENTION.as_secs(),
            remember_redriven_ids_seconds: (KEPT_FOR + JOB_RETENTION).as_secs(),
        }
    }
}

/// A line for each attempt that fits into the horizon if chance makes all delays short.
fn lines(policy: &RetryPolicy, horizon: u64) -> Vec<Line> {
    let first = Line {
        attempt: 1,
        last_attempt: 1,
        after_previous_seconds: None,
        since_first_seconds: Range { from: 0, to: 0 },
        clamped_from_seconds: None,
    };
    let mut lines = vec![first];
    let (mut earliest, mut latest) = (0, 0);
    for before in 1..policy.attempts {
        let shortest = u64::from(policy.backoff_seconds(before, 0.0));
        let longest = u64::from(policy.backoff_seconds(before, 1.0));
        earliest += shortest;
        latest += longest;
        if earliest > horizon {
            break;
        }
        lines.push(Line {
            attempt: before + 1,
            last_attempt: before + 1,
            after_previous_seconds: Some(Range {
                from: shortest,
                to: longest,
            }),
            since_first_seconds: Range {
                from: earliest,
                to: latest.min(horizon),
            },
            clamped_from_seconds: policy
                .is_clamped(before)
                .then(|| Duration::from_secs_f64(policy.planned_seconds(before)).as_secs()),
        });
    }
    lines
}

/// How many attempts a published policy comes to as a rule, where nobody asks for longer waits.
pub(crate) fn expected_attempts(policy: &RetryPolicy) -> u32 {
    let contract = Contract::published(policy.clone());
    contract
        .attempts_usually
        .unwrap_or(contract.attempts_at_most)
}

/// How many attempts there are if chance has no say.
fn usual_attempts(policy: &RetryPolicy, horizon: u64) -> u32 {
    let mut age = 0;
    for attempt in 1..policy.attempts {
        age += u64::from(policy.backoff_seconds(attempt, 0.5));
        if age > horizon {
            return attempt;
        }
    }
    policy.attempts
}

/// The lines, with a long row of equal delays at the end as one.
fn folded(mut lines: Vec<Line>) -> Vec<Line> {
    let Some(last) = lines.last().copied() else {
        return lines;
    };
    let tail = lines
        .iter()
        .rev()
        .take_while(|line| line.after_previous_seconds == last.after_previous_seconds)
        .count();
    if tail > LONGEST_TAIL {
        lines.truncate(lines.len() - tail + 1);
        if let Some(line) = lines.last_mut() {
            line.last_attempt = last.attempt;
            line.since_first_seconds.to = last.since_first_seconds.to;
        }
    }
    lines
}

fn answers(policy: &RetryPolicy) -> Vec<Answer> {
    let answer = |answer: &str, leads_to| Answer {
        answer: answer.to_owned(),
        leads_to,
        attempts_at_most: None,
    };
    let mut answers = vec![answer("2xx", End::Delivered), answer("410", End::Disabled)];
    for (from, to, treatment) in policy.statuses.rules {
        let statuses = statuses(*from, *to);
        let (leads_to, attempts_at_most) = treated(*treatment);
        match answers.last_mut() {
            Some(last)
                if (last.leads_to, last.attempts_at_most) == (leads_to, attempts_at_most) =>
            {
                last.answer = format!("{}, {statuses}", last.answer);
            }
            Some(_) | None => answers.push(Answer {
                answer: statuses,
                leads_to,
                attempts_at_most,
            }),
        }
    }
    let (leads_to, attempts_at_most) = treated(policy.statuses.otherwise);
    answers.push(Answer {
        answer: "any other status; 3xx is not followed".to_owned(),
        leads_to,
        attempts_at_most,
    });
    answers.push(answer(
        "none: timeout, no connection, TLS error, broken connection",
        End::Retried,
    ));
    answers
}

/// `400, 401` or `5xx`.
fn statuses(from: u16, to: u16) -> String {
    if from.is_multiple_of(100) && to == from + 99 {
        return format!("{}xx", from / 100);
    }
    let statuses: Vec<String> = (from..=to).map(|status| status.to_string()).collect();
    statuses.join(", ")
}

fn treated(treatment: Treatment) -> (End, Option<u32>) {
    match treatment {
        Treatment::Retry => (End::Retried, None),
        Treatment::AtMost(attempts) => (End::Retried, Some(attempts)),
        Treatment::Dead => (End::Dead, None),
    }
}

impl Report for Contract {}

impl Display for Contract {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "## Retry schedule `{}`\n", self.policy)?;
        write!(
            f,
            "A webhook is tried at most {}",
            times(self.attempts_at_most)
        )?;
        if let Some(usual) = self.attempts_usually {
            write!(f, ", as a rule about {}", times(usual))?;
        }
        writeln!(f, ". {}", self.horizon())?;
        writeln!(f, "{}", self.chance())?;
        if let Some(scale) = self.time_scale {
            writeln!(
                f,
                "\n**Not for partners:** this stack multiplies its delays by {scale} \
                 (`RetryTimeScale`), for demos and tests."
            )?;
        }
        self.table(f)?;
        writeln!(f, "\n### What an answer leads to\n")?;
        writeln!(f, "| answer | what follows |\n|---|---|")?;
        for answer in &self.answers {
            writeln!(f, "| {} | {} |", answer.answer, answer.consequence())?;
        }
        writeln!(
            f,
            "\nAn attempt may take {} until the status line, connecting included; a slower answer \
             counts as none.\n\
             `Retry-After`, in seconds or as an HTTP date, is honoured with every status that is \
             retried: the next attempt does not come before it. The longest wait that can be asked \
             for is {}.",
            span::exact(self.timeout_seconds),
            span::at_least(self.longest_retry_after_seconds.into()),
        )?;
        write!(
            f,
            "\n### Repeats\n\n\
             Every attempt of a webhook has the same `webhook-id`, and so has everything that \
             repeats it later. A webhook can come more than once, also after a 2xx; ignore an id \
             that was handled before. Remember ids for {} days, or for {} days if webhooks that \
             are sent again by hand (up to {} days later) must be recognised too.",
            days(self.remember_ids_seconds),
            days(self.remember_redriven_ids_seconds),
            days(KEPT_FOR.as_secs()),
        )
    }
}

impl Contract {
    fn horizon(&self) -> String {
        let horizon = span::at_most(self.horizon_seconds);
        if self.horizon_is_reached {
            format!("No attempt begins later than {horizon} after the first.")
        } else {
            format!(
                "No attempt begins later than {horizon} after the first, which only long waits \
                 asked for by `Retry-After` lead to."
            )
        }
    }

    fn chance(&self) -> &'static str {
        match self.jitter {
            Chance::Half => {
                "Half of each delay is fixed and half is random, so that a receiver that \
                 recovers is not hit by everything at once."
            }
            Chance::All => {
                "All of each delay is random, so that a receiver that recovers is not hit by \
                 everything at once."
            }
            Chance::Small => {
                "Each delay varies a little, so that a receiver that recovers is not hit by \
                 everything at once."
            }
        }
    }

    fn table(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n| attempt | after the one before | since the first |")?;
        writeln!(f, "|---|---|---|")?;
        for line in &self.attempts {
            let (attempt, since) = (line.attempt, line.since_first_seconds);
            let mark = line.clamped_from_seconds.map_or("", |_| " *");
            match line.after_previous_seconds {
                None => writeln!(f, "| {attempt} | | {since} |")?,
                Some(delay) if line.last_attempt == attempt => {
                    writeln!(f, "| {attempt} | {delay}{mark} | {since} |")?;
                }
                Some(delay) => writeln!(
                    f,
                    "| {attempt} and on | then every {delay}{mark} | from {} on, until {} |",
                    span::at_least(since.from),
                    span::at_most(since.to),
                )?,
            }
        }
        let clamped = self
            .attempts
            .iter()
            .find_map(|line| line.clamped_from_seconds);
        if let Some(planned) = clamped {
            writeln!(
                f,
                "\n\\* {} in the schedule, but the queue can keep a webhook for {} at most.",
                span::exact(planned),
                span::at_least(self.longest_delay_seconds.into()),
            )?;
        }
        writeln!(
            f,
            "\nDelays count from the end of the attempt before; the attempts themselves are not \
             counted in."
        )
    }
}

impl Answer {
    fn consequence(&self) -> String {
        match (self.leads_to, self.attempts_at_most) {
            (End::Delivered, _) => "delivered, whatever becomes of the body".to_owned(),
            (End::Disabled, _) => {
                "the subscription is switched off; this webhook and later ones are not sent"
                    .to_owned()
            }
            (End::Dead, _) => "given up at once".to_owned(),
            (End::Retried, Some(attempts)) => format!(
                "retried, but given up at the {} such answer to a webhook",
                ordinal(attempts)
            ),
            (End::Retried, None) => "retried".to_owned(),
        }
    }
}

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (from, to) = (span::at_least(self.from), span::at_most(self.to));
        if from == to {
            f.write_str(&from)
        } else {
            write!(f, "{from} to {to}")
        }
    }
}

fn times(number: u32) -> String {
    match number {
        1 => "once".to_owned(),
        number => format!("{number} times"),
    }
}

fn days(seconds: u64) -> u64 {
    seconds.div_ceil(86_400)
}

/// `third`.
pub(crate) fn ordinal(number: u32) -> String {
    match number {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        number => format!("{number}th"),
    }
}

#[cfg(test)]
mod tests;
