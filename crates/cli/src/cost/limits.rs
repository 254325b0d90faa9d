//! Limits of AWS, and of the template, that a volume may not fit into.

use webhooks_core::calls::JOB_ENVELOPE_BYTES;

use super::model::Bill;

/// Lambda invokes a function with at most so much, in bytes, and a message that it hands over has
/// about so much beside its text: ids, times, its group.
const INVOCATION_MAX_BYTES: usize = 6 * 1_048_576;
const MESSAGE_BYTES: usize = 700;

/// The template's MaximumConcurrency: how many environments of deliver there are at most.
pub(super) const MAXIMUM_CONCURRENCY: f64 = 20.0;

/// How often a second SSM answers an account, unless it asks for more.
const PARAMETERS_PER_SECOND: f64 = 40.0;

/// How many messages with such a payload there are in a batch, of as many as were wished: Lambda
/// takes 6 MB. What JSON escapes in a payload would make it fewer still, and is not counted.
#[must_use]
pub fn fitting(wished: u8, payload: usize) -> usize {
    let message = payload + JOB_ENVELOPE_BYTES + MESSAGE_BYTES;
    (INVOCATION_MAX_BYTES / message).clamp(1, usize::from(wished).max(1))
}

/// What a volume asks for beyond its limit, a sentence each.
#[must_use]
pub fn exceeded(bill: &Bill) -> Vec<String> {
    let mut exceeded = Vec::new();
    if bill.environments > MAXIMUM_CONCURRENCY {
        exceeded.push(format!(
            "{:.0} environments of deliver would be busy, the template's MaximumConcurrency is \
             {MAXIMUM_CONCURRENCY}",
            bill.environments.ceil()
        ));
    }
    if bill.parameters_per_second > PARAMETERS_PER_SECOND {
        exceeded.push(format!(
            "SSM would be asked {:.0} times a second, an account has {PARAMETERS_PER_SECOND} \
             unless it asks for more",
            bill.parameters_per_second
        ));
    }
    exceeded
}
