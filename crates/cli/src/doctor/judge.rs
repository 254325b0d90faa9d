//! Makes checks of what was found. Nothing is asked here, so each can be tested to the letter.

use super::check::Check;
use super::findings::Findings;

mod alarms;
mod functions;
mod partners;
mod queues;
mod stack;

/// All checks, in the order in which an event goes and with the alarms at the end.
#[must_use]
pub fn all(findings: &Findings) -> Vec<Check> {
    let mut checks = stack::checks(findings);
    checks.extend(functions::checks(findings));
    checks.extend(queues::checks(findings));
    checks.extend(partners::checks(findings));
    checks.extend(alarms::checks(findings));
    checks
}

/// The one line that says that a subject has none of the faults that were looked for.
fn unless_found(mut found: Vec<Check>, otherwise: impl FnOnce() -> Check) -> Vec<Check> {
    if found.is_empty() {
        found.push(otherwise());
    }
    found
}

#[cfg(test)]
mod tests;
