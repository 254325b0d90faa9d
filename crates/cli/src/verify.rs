//! `webhooks verify`: whether a request is signed as it must be, and if not, why. It asks nobody:
//! a partner needs no access to AWS for it.

use std::fmt::{self, Display, Formatter};

use clap::Args;
use serde::Serialize;
use webhooks_core::diagnosis::{Diagnosis, Request, diagnose};
use webhooks_core::verify::Signed;

use crate::error::{Error, Exit};
use crate::moment::Moment;
use crate::output::Report;
use crate::{Context, input};

/// How long a secret may be.
const SECRET_MAX_BYTES: u64 = 64 * 1024;

/// How long a body may be.
const BODY_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Value of the header `webhook-id`
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub id: String,

    /// Value of the header `webhook-timestamp`
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub timestamp: String,

    /// Value of the header `webhook-signature`
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub signature: String,

    /// Secret to verify with, `whsec_…`, `whpk_…` or `whsk_…`, or `@FILE` that it stands in
    #[arg(
        long,
        value_name = "SECRET",
        env = "WEBHOOKS_SECRET",
        hide_env_values = true
    )]
    pub secret: String,

    /// File with the body, byte for byte; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub body: String,

    /// When the request arrived: `2h` ago, or a time [default: now]
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    pub at: Option<Moment>,
}

/// What is found out about a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Whether a receiver may take it.
    pub verified: bool,
    /// The word for why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What is found out, in sentences.
    pub message: String,
    /// Whether the signature is right once the reasons are out of the way.
    pub signature_is_right: bool,
    /// Whether the search for what is wrong was given up before everything had been tried.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub search_was_cut: bool,
    /// The words for all that is wrong, the main thing first.
    pub reasons: Vec<&'static str>,
}

/// Verifies a request.
///
/// # Errors
/// If body or secret can not be read.
pub async fn run(arguments: &Arguments, context: &Context) -> Result<Verification, Error> {
    if arguments.body == "-" && arguments.secret == "@-" {
        let message = "standard input can not be both the body and the secret";
        return Err(Error::Usage(message.into()));
    }
    let secret = match arguments.secret.strip_prefix('@') {
        Some(path) if path.starts_with("whsec_") || path.starts_with("whsk_") => {
            let message = "--secret: `@` is for the name of a file; leave it out before a secret";
            return Err(Error::Usage(message.into()));
        }
        Some(path) => {
            let bytes = input::read_within(path, "the secret", SECRET_MAX_BYTES)?;
            String::from_utf8(bytes)
                .map_err(|_| Error::Usage(format!("the secret in `{path}` is not UTF-8 text")))?
        }
        None => arguments.secret.clone(),
    };
    let body = input::read_within(&arguments.body, "the body", BODY_MAX_BYTES)?;
    let request = Request {
        signed: Signed {
            id: &arguments.id,
            timestamp: &arguments.timestamp,
            signature: &arguments.signature,
        },
        secret: &secret,
        body: &body,
    };
    let now = arguments
        .at
        .map_or(context.now, |moment| moment.at(context.now));
    Ok(Verification::new(&diagnose(request, now)))
}

impl Verification {
    fn new(diagnosis: &Diagnosis) -> Self {
        let reasons: Vec<_> = diagnosis
            .reasons
            .iter()
            .map(|reason| reason.word())
            .collect();
        Self {
            verified: diagnosis.is_verified(),
            reason: reasons.first().copied(),
            message: diagnosis.message(),
            signature_is_right: diagnosis.signature_is_right,
            search_was_cut: diagnosis.search_was_cut,
            reasons,
        }
    }
}

impl Report for Verification {
    fn exit(&self) -> Exit {
        if self.verified {
            Exit::Done
        } else {
            Exit::Failed
        }
    }
}

impl Display for Verification {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.reason {
            None => f.write_str("verified"),
            Some(reason) => write!(f, "not verified: {reason}\n\n{}", self.message),
        }
    }
}
