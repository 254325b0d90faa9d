//! Why a signature does not match, for a partner who asks.
//!
//! [`verify`](crate::verify) alone says whether a request is verified. Where it is not, everything
//! that people and frameworks are known to do to secrets, headers and bodies is undone here, one
//! after the other, until a signature comes out that is right: that is the reason, found by
//! computing and not by guessing. That is some thousand variants and the seconds around the given
//! one, far too few for a forged signature to fit one of them by chance; and what is found is told,
//! never accepted. The work has a bound, whatever was given, and it is said if that was reached.
//!
//! | module | undoes what was done to |
//! |---|---|
//! | `keys` | the secret |
//! | `header` | the signatures |
//! | `fields` | id and timestamp |
//! | `body`, [`rewrite`] | the body |

use std::cell::Cell;
use std::time::SystemTime;

mod body;
mod fields;
mod header;
mod keys;
mod reason;
pub mod rewrite;

pub use reason::Reason;

use crate::signature::signed_content;
use crate::verify::{Rejection, Signed};
use header::Candidate;
use keys::{Keys, Way};

/// How much is hashed at most in a search, in bytes: a second or two.
const BUDGET_BYTES: usize = 256 * 1024 * 1024;

/// What a receiver has of a request, and what it verifies with.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The three headers.
    pub signed: Signed<'a>,
    /// `whsec_`, `whpk_` or `whsk_`, or several of them.
    pub secret: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// What is found out about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// What is wrong with it, the main thing first; empty if it is verified.
    pub reasons: Vec<Reason>,
    /// Whether the signature is right once the reasons are out of the way.
    pub signature_is_right: bool,
    /// Whether the search was given up before everything had been tried.
    pub search_was_cut: bool,
}

impl Diagnosis {
    /// Whether the request is verified.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.reasons.is_empty()
    }

    /// What is found out, in sentences.
    #[must_use]
    pub fn message(&self) -> String {
        let mut sentences: Vec<String> = self.reasons.iter().map(Reason::to_string).collect();
        if self.is_verified() {
            sentences.push("The signature is right.".to_owned());
        } else if self.signature_is_right {
            sentences.push("Apart from that, the signature is right.".to_owned());
        } else if self.search_was_cut {
            sentences.push(
                "Not everything was tried: that would take too long with so large a body, or so \
                 many signatures or secrets."
                    .to_owned(),
            );
        }
        sentences.join(" ")
    }
}

/// Finds out whether a request is verified around `now`, and if not, why.
#[must_use]
pub fn diagnose(request: Request<'_>, now: SystemTime) -> Diagnosis {
    diagnose_within(request, now, BUDGET_BYTES)
}

fn diagnose_within(request: Request<'_>, now: SystemTime, budget_bytes: usize) -> Diagnosis {
    let keys = Keys::read(request.secret);
    let rejection = match &keys.verifying {
        Ok(verifying) => match verifying.verify(request.signed, request.body, now) {
            Ok(()) => {
                return Diagnosis {
                    reasons: Vec::new(),
                    signature_is_right: true,
                    search_was_cut: false,
                };
            }
            Err(rejection) => Some(rejection),
        },
        Err(_) => None,
    };
    let candidates = header::candidates(request.signed.signature);
    let search = Search {
        request,
        keys: &keys,
        candidates: &candidates,
        left: Cell::new(budget_bytes),
        was_cut: Cell::new(false),
    };
    let (reasons, signature_is_right) = match search.run(now) {
        Some(reasons) if reasons.is_empty() => (vec![as_it_stands(rejection, &keys)], true),
        Some(reasons) => (reasons, true),
        None => (vec![search.by_form()], false),
    };
    Diagnosis {
        reasons,
        signature_is_right,
        search_was_cut: !signature_is_right && search.was_cut.get(),
    }
}

/// Why a right signature over id, timestamp and body as they are is not enough.
fn as_it_stands(rejection: Option<Rejection>, keys: &Keys) -> Reason {
    match (rejection, &keys.verifying) {
        (Some(Rejection::TooOld(seconds)), _) => Reason::TooOld(seconds),
        (Some(Rejection::TooNew(seconds)), _) => Reason::TooNew(seconds),
        (Some(Rejection::Timestamp), _) => Reason::TimestampNotANumber,
        (Some(Rejection::Id), _) => Reason::IdDot,
        (_, Err(reason)) => *reason,
        (Some(Rejection::NoSignature | Rejection::Signature) | None, Ok(_)) => Reason::NoMatch,
    }
}

struct Search<'a> {
    request: Request<'a>,
    keys: &'a Keys,
    candidates: &'a [Candidate],
    /// How much may still be hashed, in bytes.
    left: Cell<usize>,
    /// Whether something was not tried for want of it.
    was_cut: Cell<bool>,
}

impl Search<'_> {
    /// What was done to a request whose signature is right otherwise; `None` if nothing fits.
    fn run(&self, now: SystemTime) -> Option<Vec<Reason>> {
        let Request { signed, body, .. } = self.request;
        let ids = fields::ids(signed.id);
        let timestamps = fields::timestamps(signed.timestamp);
        let pairs = pairs(&ids, &timestamps);
        for (reasons, id, timestamp) in &pairs {
            if let Some(found) = self.signed(id, timestamp, body, reasons) {
                return Some(found);
            }
        }
        let bodies = body::candidates(body);
        for (reasons, id, timestamp) in &pairs {
            for (reason, body) in &bodies {
                let reasons = [reasons.as_slice(), &[*reason]].concat();
                if let Some(found) = self.signed(id, timestamp, body, &reasons) {
                    return Some(found);
                }
            }
        }
        let alone = [Reason::SignedBodyOnly];
        if let Some(found) = self.made(&[body], &alone) {
            return Some(found);
        }
        for (_, timestamp) in &timestamps {
            let content = [timestamp.as_bytes(), b".", body];
            if let Some(found) = self.made(&content, &[Reason::SignedWithoutId]) {
                return Some(found);
            }
        }
        let length = signed.id.len() + body.len();
        for seconds in fields::other_seconds(signed.timestamp, now, length) {
            // So many that only the keys as they were handed out are tried, if there are any.
            let seconds_text = seconds.to_string();
            let content = signed_content(signed.id, &seconds_text, body);
            let reasons = [Reason::TimestampOther(seconds)];
            if let Some(found) = self
                .keys
                .likely()
                .find_map(|way| self.made_by(way, &content, &reasons))
            {
                return Some(found);
            }
        }
        None
    }

    fn signed(
        &self,
        id: &str,
        timestamp: &str,
        body: &[u8],
        reasons: &[Reason],
    ) -> Option<Vec<Reason>> {
        let content = signed_content(id, timestamp, body);
        self.made(&content, reasons)
    }

    /// All that is wrong if one of the keys has made one of the signatures over this content.
    fn made(&self, content: &[&[u8]], reasons: &[Reason]) -> Option<Vec<Reason>> {
        let mut ways = self.keys.ways.iter();
        ways.find_map(|way| self.made_by(way, content, reasons))
    }

    fn made_by(&self, way: &Way, content: &[&[u8]], reasons: &[Reason]) -> Option<Vec<Reason>> {
        let bytes = content.iter().map(|part| part.len()).sum();
        let Some(left) = self
            .left
            .get()
            .checked_sub(way.cost(bytes, self.candidates))
        else {
            self.was_cut.set(true);
            return None;
        };
        self.left.set(left);
        let of_signature = way.has_made(content, self.candidates)?;
        let of_key = way.flaw.into_iter().chain(of_signature);
        Some(of_key.chain(reasons.iter().copied()).collect())
    }

    /// What is wrong by its form, if nothing fits.
    fn by_form(&self) -> Reason {
        let Request { signed, body, .. } = self.request;
        if let Err(reason) = &self.keys.verifying {
            return *reason;
        }
        if signed.signature.trim().is_empty() {
            return Reason::SignatureEmpty;
        }
        let is_other = |candidate: &Candidate| match candidate.scheme {
            Some(scheme) => !self.keys.schemes().any(|other| other == scheme),
            None => false,
        };
        let [first, ..] = self.candidates else {
            return Reason::SignatureVersion;
        };
        if self.candidates.iter().all(is_other) {
            return Reason::SignatureScheme;
        }
        if !self.candidates.iter().any(Candidate::is_whole) {
            return Reason::SignatureTruncated;
        }
        if signed.id.trim().is_empty() {
            return Reason::IdEmpty;
        }
        let text = signed.timestamp;
        match fields::seconds(text) {
            None => return Reason::TimestampNotANumber,
            Some((Reason::TimestampText | Reason::TimestampMilliseconds, _))
            | Some((Reason::TimestampForm, _))
                if !text.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                return Reason::TimestampNotANumber;
            }
            Some(_) => {}
        }
        if let Some(flaw) = first.flaw {
            return flaw;
        }
        if signed.id.contains('.') {
            return Reason::IdDot;
        }
        if body.is_empty() {
            return Reason::BodyEmpty;
        }
        Reason::NoMatch
    }
}

type Pair = (Vec<Reason>, String, String);

/// Ids with timestamps, what was given first and then what differs least from it.
fn pairs(ids: &[(Option<Reason>, String)], timestamps: &[(Option<Reason>, String)]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for (of_id, id) in ids {
        for (of_timestamp, timestamp) in timestamps {
            let reasons: Vec<Reason> = of_id.iter().chain(of_timestamp).copied().collect();
            pairs.push((reasons, id.clone(), timestamp.clone()));
        }
    }
    if let (Some((_, id)), Some((_, timestamp))) = (ids.first(), timestamps.first()) {
        let swapped = vec![Reason::IdSwapped];
        pairs.push((swapped, timestamp.trim().to_owned(), id.trim().to_owned()));
    }
    pairs.sort_by_key(|(reasons, ..)| reasons.len());
    pairs
}

#[cfg(test)]
mod tests;
