//! What id and timestamp may have been before somebody changed them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Reason;
use crate::timestamp;

/// How far from the given second, and from now, others are tried, either way.
const REACH_SECONDS: u64 = 600;

/// How much is hashed at most to find the second that was signed, in bytes.
const BUDGET_BYTES: usize = 256 * 1024 * 1024;

/// Without quotes and white space, and without the header's name, which is easily pasted with it.
fn bare<'a>(text: &'a str, header: &str) -> &'a str {
    let text = text.trim();
    let text = match text.split_once(':') {
        Some((name, value)) if name.eq_ignore_ascii_case(header) => value.trim(),
        Some(_) | None => text,
    };
    text.trim_matches(['"', '\'']).trim()
}

/// The ids that may be meant, and what is wrong with the one that was given, itself first.
pub(super) fn ids(id: &str) -> Vec<(Option<Reason>, String)> {
    let bare = bare(id, crate::signature::ID_HEADER);
    let mut ids = vec![(None, id.to_owned())];
    if bare != id {
        ids.push((Some(Reason::IdForm), bare.to_owned()));
    }
    if !bare.starts_with("msg_") {
        ids.push((Some(Reason::IdPrefix), format!("msg_{bare}")));
    }
    if let Some((before, _)) = bare.split_once('.') {
        ids.push((Some(Reason::IdDot), before.to_owned()));
    }
    ids
}

/// The same for timestamps.
pub(super) fn timestamps(text: &str) -> Vec<(Option<Reason>, String)> {
    let bare = bare(text, crate::signature::TIMESTAMP_HEADER);
    let mut timestamps = vec![(None, text.to_owned())];
    if bare != text {
        timestamps.push((Some(Reason::TimestampForm), bare.to_owned()));
    }
    if let Some((reason, seconds)) = seconds(text)
        && seconds.to_string() != text
    {
        timestamps.push((Some(reason), seconds.to_string()));
    }
    timestamps
}

/// The second that a timestamp stands for, and what is wrong with it if anything is.
pub(super) fn seconds(text: &str) -> Option<(Reason, u64)> {
    let bare = bare(text, crate::signature::TIMESTAMP_HEADER);
    let plain = bare.trim_start_matches('+');
    let plain = plain.split('.').next().unwrap_or(plain);
    let is_number = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        let number: u64 = plain.parse().ok()?;
        // Seconds have ten digits until the year 2286.
        return Some(match plain.len() {
            0..=11 => (Reason::TimestampForm, number),
            12..=14 => (Reason::TimestampMilliseconds, number / 1000),
            15..=17 => (Reason::TimestampMilliseconds, number / 1_000_000),
            _ => (Reason::TimestampMilliseconds, number / 1_000_000_000),
        });
    }
    let time = timestamp::parse(bare).or_else(|| httpdate::parse_http_date(bare).ok())?;
    Some((Reason::TimestampText, since_1970(time)))
}

/// Other seconds, those around the given one first and then those around `now`, the nearest first.
pub(super) fn other_seconds(
    text: &str,
    now: SystemTime,
    content_bytes: usize,
) -> impl Iterator<Item = u64> {
    let given = seconds(text).map(|(_, seconds)| seconds);
    let affordable = BUDGET_BYTES / (content_bytes + 64) / 4;
    let reach = REACH_SECONDS.min(u64::try_from(affordable).unwrap_or(REACH_SECONDS));
    let centres = given.into_iter().chain([since_1970(now)]);
    centres.flat_map(move |centre| {
        (0..=reach).flat_map(move |away| {
            let earlier = centre.checked_sub(away);
            let later = (away > 0).then(|| centre.checked_add(away)).flatten();
            earlier.into_iter().chain(later)
        })
    })
}

pub(super) fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
