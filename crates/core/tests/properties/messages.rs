//! Events, jobs, their identity, and how they are packed.

use proptest::collection::vec;
use proptest::prelude::*;
use webhooks_core::event::Event;
use webhooks_core::identity::{SubscriberId, is_webhook_id, webhook_id};
use webhooks_core::job::Job;
use webhooks_core::packing::{MAX_BYTES, MAX_ENTRIES, Packed, Packer};

use crate::cases;
use crate::generators::{Said, damaged, event, quoted, subscriber_id, text};

/// What a JSON text becomes on its way through SQS: the same, but for two characters.
fn escaped(json: &str) -> String {
    json.replace('\u{fffe}', "\\ufffe")
        .replace('\u{ffff}', "\\uffff")
}

fn is_taken_by_sqs(text: &str) -> bool {
    text.chars().all(|character| {
        matches!(character,
            '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
    })
}

/// The message that dispatch sends for an event.
fn message_of(json: &str, subscriber: &SubscriberId, url: &str) -> String {
    let event = Event::parse(json).unwrap();
    let body = event.freeze_body().unwrap();
    let id = webhook_id(&event.id, subscriber);
    let (event_type, time) = (&event.event_type, &event.time);
    let job = Job::new(&id, &event.id, event_type, subscriber, time, url, &body);
    job.to_message_body().unwrap()
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_body_holds_the_detail_byte_for_byte(said in event()) {
        let Said { json, id, event_type, time, detail } = said;

        let event = Event::parse(&json).unwrap();

        prop_assert_eq!(&*event.id, &id);
        prop_assert_eq!(&*event.event_type, &event_type);
        prop_assert_eq!(&*event.time, &time);
        let (event_type, time) = (quoted(&event_type), quoted(&time));
        let body = format!(r#"{{"type":{event_type},"timestamp":{time},"data":{detail}}}"#);
        let frozen = event.freeze_body().unwrap();
        prop_assert_eq!(frozen.get(), escaped(&body));
        prop_assert!(is_taken_by_sqs(frozen.get()));
    }

    #[test]
    fn what_dispatch_packs_deliver_unpacks(
        said in event(),
        subscriber in subscriber_id(),
        url in text(40),
    ) {
        let message = message_of(&said.json, &subscriber, &url);

        prop_assert!(is_taken_by_sqs(&message));
        let job = Job::parse(&message).unwrap();
        let event = Event::parse(&said.json).unwrap();
        let body = event.freeze_body().unwrap();
        prop_assert_eq!(job.body.get(), body.get());
        prop_assert_eq!(job.webhook_id, webhook_id(&said.id, &subscriber));
        prop_assert_eq!(&*job.event_id, &said.id);
        prop_assert_eq!(&*job.event_type, &said.event_type);
        prop_assert_eq!(&*job.subscriber_id, subscriber.as_str());
        prop_assert_eq!(&*job.occurred_at, &said.time);
        prop_assert_eq!(&*job.url, &url);
    }

    #[test]
    fn what_passes_for_an_event_can_be_fanned_out(
        json in damaged(event().prop_map(|said| said.json)),
    ) {
        if let Ok(event) = Event::parse(&json) {
            let body = event.freeze_body().unwrap();
            let data = format!(r#","data":{}}}"#, escaped(event.detail.get()));
            prop_assert!(body.get().ends_with(&data), "{}", body);
        }
    }

    #[test]
    fn what_passes_for_a_job_is_safe_and_can_be_written_again(
        message in damaged((event(), subscriber_id()).prop_map(|(said, subscriber)| {
            message_of(&said.json, &subscriber, "https://example.com/")
        })),
    ) {
        if let Ok(job) = Job::parse(&message) {
            prop_assert!(is_webhook_id(&job.webhook_id));
            prop_assert!(SubscriberId::parse(&job.subscriber_id).is_ok());
            let again = job.to_message_body().unwrap();
            prop_assert!(is_taken_by_sqs(&again));
            let job_again = Job::parse(&again).unwrap();
            prop_assert_eq!(job_again.body.get(), escaped(job.body.get()));
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn no_text_makes_a_reader_panic(text in text(60)) {
        let _ = Event::parse(&text);
        let _ = Job::parse(&text);
        let _ = SubscriberId::parse(&text);
    }

    #[test]
    fn a_webhook_id_has_no_dot_and_is_safe_in_a_header(
        event_id in prop_oneof![text(200), "[A-Za-z0-9._-]{0,140}"],
        subscriber in subscriber_id(),
    ) {
        let id = webhook_id(&event_id, &subscriber);

        prop_assert!(!id.contains('.'), "{}", id);
        prop_assert!(is_webhook_id(&id), "{}", id);
        prop_assert!(id.starts_with("msg_") && id.ends_with(&format!("_{subscriber}")), "{}", id);
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn every_message_is_packed_once_in_order_and_every_batch_fits(
        sizes in vec(prop_oneof![
            4 => 1..2000_usize,
            2 => 1..=MAX_BYTES / 4,
            1 => MAX_BYTES - 2..MAX_BYTES + 3,
        ], 0..45),
    ) {
        let mut packer = Packer::default();
        let mut batches = Vec::new();
        let mut taken = Vec::new();
        for (number, size) in sizes.into_iter().enumerate() {
            let message = Packed { group: number.to_string(), body: "x".repeat(size) };
            match packer.push(message) {
                Ok(batch) => {
                    taken.push((number.to_string(), size));
                    batches.extend(batch);
                }
                Err(error) => {
                    prop_assert!(size > MAX_BYTES);
                    prop_assert_eq!(error.bytes, size);
                }
            }
        }
        batches.extend(packer.finish());
        prop_assert_eq!(packer.finish(), None);

        for batch in &batches {
            prop_assert!((1..=MAX_ENTRIES).contains(&batch.len()));
            let bytes: usize = batch.iter().map(|message| message.body.len()).sum();
            prop_assert!(bytes <= MAX_BYTES);
        }
        let packed: Vec<(String, usize)> = batches
            .into_iter()
            .flatten()
            .map(|message| (message.group, message.body.len()))
            .collect();
        prop_assert_eq!(packed, taken);
    }
}
