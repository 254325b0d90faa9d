//! Texts that others write: a header, a message, an event, a parameter.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use webhooks_core::event::Event;
use webhooks_core::identity::{SubscriberId, is_webhook_id, webhook_id};
use webhooks_core::job::Job;
use webhooks_core::packing::{MAX_BYTES, Packed, Packer};
use webhooks_core::policy::{NAMES, RetryPolicy};
use webhooks_core::retry_after::RetryAfter;
use webhooks_core::secret::{Scheme, SigningSecrets};
use webhooks_core::signature::sign;
use webhooks_core::verify::{Signed, VerifyingKeys};

/// 2026-11-30T12:00:00Z
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_796_040_000)
}

/// A `Retry-After` is digits alone or a date as the library reads it, and whatever it asks for, no policy waits longer than
/// its queue can.
///
/// # Panics
/// If that does not hold.
pub fn retry_after(data: &[u8]) {
    let parsed = RetryAfter::parse(data);
    let value = data.trim_ascii();
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let date = str::from_utf8(value).ok();
    let date = date.and_then(|text| httpdate::parse_http_date(text).ok());
    match parsed {
        Some(RetryAfter::Seconds(seconds)) => {
            assert!(is_number, "{data:?}");
            let digits = str::from_utf8(value).unwrap().trim_start_matches('0');
            let number = if digits.is_empty() {
                0
            } else {
                digits.parse().unwrap_or(u64::MAX)
            };
            assert_eq!(seconds, number);
        }
        Some(RetryAfter::At(time)) => {
            assert!(!is_number, "{data:?}");
            assert_eq!(Some(time), date, "{data:?}");
            // It is the date that it says: the same second, written in the usual format.
            let date = httpdate::fmt_http_date(time);
            assert_eq!(RetryAfter::parse(date.as_bytes()), parsed, "{data:?}");
        }
        None => assert!(!is_number && date.is_none(), "{data:?}"),
    }
    for name in NAMES {
        let policy = RetryPolicy::by_name(name).expect("a published policy");
        for now in [UNIX_EPOCH, now(), now() + Duration::from_millis(1)] {
            let asked = policy.asked_seconds(parsed, now);
            let wanted = parsed.map_or(0, |wish| wish.seconds_from(now));
            let longest = policy.longest_retry_after_seconds();
            assert_eq!(u64::from(asked), wanted.min(longest.into()), "{name}");
            assert!(asked < 43_200);
            let pause = policy.pause_seconds(parsed, now);
            assert!((asked..43_200).contains(&pause), "{name}: {pause}");
        }
    }
}

/// What passes for a job is safe to be looked up, signed and sent, and can be written again.
///
/// # Panics
/// If that does not hold.
pub fn job(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(job) = Job::parse(text) else {
        return;
    };
    assert!(is_webhook_id(&job.webhook_id));
    assert!(!job.webhook_id.contains('.'));
    assert!(http::HeaderValue::from_str(&job.webhook_id).is_ok());
    SubscriberId::parse(&job.subscriber_id).expect("a subscriber");
    assert!(!job.event_type.is_empty());
    // The bytes that are signed are a part of the message, and an object.
    let body = job.body.get();
    assert!(text.contains(body));
    assert!(body.starts_with('{') && body.ends_with('}'));
    let written = job.to_message_body().expect("a job can be written");
    assert!(is_taken_by_sqs(&written));
    let again = Job::parse(&written).expect("what was written can be read");
    assert_eq!(again.webhook_id, job.webhook_id);
    assert_eq!(again.subscriber_id, job.subscriber_id);
    assert_eq!(again.event_type, job.event_type);
    assert_eq!(again.url, job.url);
    if is_taken_by_sqs(body) {
        assert_eq!(again.body.get(), body);
    }
}

/// What passes for an event can be fanned out, with `detail` byte for byte.
///
/// # Panics
/// If that does not hold.
pub fn event(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(event) = Event::parse(text) else {
        return;
    };
    let body = event.freeze_body().expect("a body");
    assert!(is_taken_by_sqs(body.get()));
    let detail = event.detail.get();
    if is_taken_by_sqs(detail) {
        assert!(body.get().ends_with(&format!(r#","data":{detail}}}"#)));
    }
    let subscriber = SubscriberId::parse("kasse-nord").expect("a subscriber");
    let id = webhook_id(&event.id, &subscriber);
    assert!(is_webhook_id(&id) && !id.contains('.'), "{id}");
    let job = Job::new(
        &id,
        &event.id,
        &event.event_type,
        &subscriber,
        &event.time,
        "https://partner.example/",
        &body,
    );
    let message = job.to_message_body().expect("a message");
    let read = Job::parse(&message).expect("deliver reads what dispatch writes");
    assert_eq!(read.body.get(), body.get());
    assert_eq!(read.event_type, event.event_type);
    let fits = message.len() <= MAX_BYTES;
    let packed = Packer::default().push(Packed {
        group: subscriber.to_string(),
        body: message,
    });
    assert_eq!(packed.is_ok(), fits);
}

/// What is signed with a secret is verified with its other half; and no text of a secret is shown.
///
/// # Panics
/// If that does not hold.
pub fn secrets(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let shown = match SigningSecrets::parse(text) {
        Ok(secrets) => {
            for (secret, text) in secrets.iter().zip(text.split_whitespace()) {
                let keys = match secret.scheme() {
                    Scheme::V1 => text.split(';').next().map(str::to_owned),
                    Scheme::V1a => secret.public_key(),
                };
                let keys = keys.expect("something to verify with");
                verified(text, &keys);
            }
            format!("{secrets:?}")
        }
        Err(error) => format!("{error} {error:?}"),
    };
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "+/=".contains(c)));
    // The longest word of the errors has fewer.
    for word in words.filter(|word| word.len() >= 16) {
        assert!(!shown.contains(word), "{shown}");
    }
}

fn verified(secret: &str, keys: &str) {
    let secret = SigningSecrets::parse(secret).expect("one of several");
    // An end that has been reached signs nothing.
    let Some(signature) = sign(&secret, "msg_1", 7, b"{}", now()) else {
        assert!(secret.active(now()).next().is_none());
        return;
    };
    let signed = Signed {
        id: "msg_1",
        timestamp: "7",
        signature: &signature,
    };
    let keys = VerifyingKeys::parse(keys).expect("the other half");
    assert_eq!(keys.verify_signature(signed, b"{}"), Ok(()));
    assert!(keys.verify_signature(signed, b"{ }").is_err());
}

/// The characters that an SQS message may have.
fn is_taken_by_sqs(text: &str) -> bool {
    text.chars().all(|character| {
        matches!(character,
            '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
    })
}
