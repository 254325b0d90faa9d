//! Every reason, from a request to which just that was done; and that nothing else is verified.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use sha2::Sha256;

use super::rewrite::{Escapes, Order, Spacing};
use super::*;
use crate::secret::{Scheme, SigningSecrets, secret_text};
use crate::signature::sign;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const PRIVATE: &str = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
const ID: &str = "msg_e1_kasse-nord";
const AT: u64 = 1_796_040_000;
const BODY: &str =
    r#"{"type":"OrderPaid","timestamp":"2026-11-30T12:00:00Z","data":{"b":1.50,"a":"é/x"}}"#;

#[derive(Clone)]
struct Case {
    id: String,
    timestamp: String,
    signature: String,
    secret: String,
    body: Vec<u8>,
    seconds_later: i64,
}

fn signed_with(secret: &str, body: &str) -> String {
    let now = UNIX_EPOCH + Duration::from_secs(AT);
    let secrets = SigningSecrets::parse(secret).unwrap();
    sign(&secrets, ID, AT, body.as_bytes(), now).unwrap()
}

fn case(change: impl FnOnce(&mut Case)) -> Diagnosis {
    case_within(BUDGET_BYTES, change)
}

fn case_within(budget_bytes: usize, change: impl FnOnce(&mut Case)) -> Diagnosis {
    let mut case = Case {
        id: ID.to_owned(),
        timestamp: AT.to_string(),
        signature: signed_with(SECRET, BODY),
        secret: SECRET.to_owned(),
        body: BODY.as_bytes().to_vec(),
        seconds_later: 10,
    };
    change(&mut case);
    let request = Request {
        signed: Signed {
            id: &case.id,
            timestamp: &case.timestamp,
            signature: &case.signature,
        },
        secret: &case.secret,
        body: &case.body,
    };
    let now = AT.saturating_add_signed(case.seconds_later);
    let now = UNIX_EPOCH + Duration::from_secs(now);
    diagnose_within(request, now, budget_bytes)
}

/// The one reason apart from which the signature is right.
fn found(change: impl FnOnce(&mut Case)) -> Reason {
    let diagnosis = case(change);
    assert!(diagnosis.signature_is_right, "{diagnosis:?}");
    assert_eq!(diagnosis.reasons.len(), 1, "{diagnosis:?}");
    diagnosis.reasons[0]
}

/// The reason without which nothing can be found out.
fn by_form(change: impl FnOnce(&mut Case)) -> Reason {
    let diagnosis = case(change);
    assert!(!diagnosis.signature_is_right, "{diagnosis:?}");
    assert_eq!(diagnosis.reasons.len(), 1, "{diagnosis:?}");
    diagnosis.reasons[0]
}

fn public_key(private: &str) -> String {
    let secrets = SigningSecrets::parse(private).unwrap();
    secrets.iter().next().unwrap().public_key().unwrap()
}

fn mac(key: &[u8], content: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(content);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn encoded(signature: &str) -> &str {
    signature.strip_prefix("v1,").unwrap()
}

#[test]
fn what_is_right_is_verified_with_each_kind_of_secret() {
    let verified = |secret: &str, signature: &str| {
        case(|case| {
            case.secret = secret.to_owned();
            case.signature = signature.to_owned();
        })
    };
    for (secret, signature) in [
        (SECRET.to_owned(), signed_with(SECRET, BODY)),
        (format!("{OTHER} {SECRET}\n"), signed_with(SECRET, BODY)),
        (
            format!("{SECRET} {OTHER};until=2030-01-01T00:00:00Z"),
            signed_with(OTHER, BODY),
        ),
        (PRIVATE.to_owned(), signed_with(PRIVATE, BODY)),
        (public_key(PRIVATE), signed_with(PRIVATE, BODY)),
    ] {
        let diagnosis = verified(&secret, &signature);
        assert!(diagnosis.is_verified(), "{secret}: {diagnosis:?}");
        assert_eq!(diagnosis.message(), "The signature is right.");
    }
}

#[test]
fn what_is_wrong_with_the_secret_is_found() {
    let bare = SECRET.strip_prefix("whsec_").unwrap();
    let hex: String = STANDARD
        .decode(bare)
        .unwrap()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    for (secret, reason) in [
        (format!("\"{SECRET}\""), Reason::SecretQuoted),
        (bare.to_owned(), Reason::SecretPrefix),
        (
            format!("whsec_{} {}", &bare[..8], &bare[8..]),
            Reason::SecretPrefix,
        ),
        (format!("whsec_{hex}"), Reason::SecretAlphabet),
        (
            format!("whpk_{bare}"),
            Reason::SecretKind("whpk_", "whsec_"),
        ),
    ] {
        assert_eq!(
            found(|case| case.secret = secret.clone()),
            reason,
            "{secret}"
        );
    }
    assert_eq!(
        found(|case| {
            case.secret = "whsec_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_".to_owned();
            case.signature = signed_with("whsec_+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/", BODY);
        }),
        Reason::SecretAlphabet
    );
    let short = mac(&[7; 16], format!("{ID}.{AT}.{BODY}").as_bytes());
    assert_eq!(
        found(|case| {
            case.secret = format!("whsec_{}", STANDARD.encode([7; 16]));
            case.signature = short;
        }),
        Reason::SecretLength(16)
    );
    for (secret, reason) in [
        ("", Reason::SecretEmpty),
        ("AQICAHhkZWNyeXB0aW9uV2Fz", Reason::SecretCiphertext),
        ("hunter2", Reason::SecretPrefix),
        ("whsec_?", Reason::SecretAlphabet),
        ("whsec_AAAA", Reason::SecretLength(3)),
        ("whpk_AAAA", Reason::SecretLength(3)),
        ("whsk_AAAA", Reason::SecretLength(3)),
        (
            &format!("whsk_{}", STANDARD.encode([7; 64])),
            Reason::SecretHalves,
        ),
    ] {
        assert_eq!(
            by_form(|case| case.secret = secret.to_owned()),
            reason,
            "{secret}"
        );
    }
}

#[test]
fn public_and_private_keys_that_are_mixed_up_are_found() {
    let public = public_key(PRIVATE);
    for (secret, given, right) in [
        (public.replace("whpk", "whsk"), "whsk_", "whpk_"),
        (public.replace("whpk", "whsec"), "whsec_", "whpk_"),
        (PRIVATE.replace("whsk", "whpk"), "whpk_", "whsk_"),
    ] {
        assert_eq!(
            found(|case| {
                case.secret = secret;
                case.signature = signed_with(PRIVATE, BODY);
            }),
            Reason::SecretKind(given, right)
        );
    }
}

#[test]
fn what_is_wrong_with_the_signature_header_is_found() {
    let right = signed_with(SECRET, BODY);
    let bytes = STANDARD.decode(encoded(&right)).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let url_safe = URL_SAFE.encode(&bytes);
    assert_ne!(url_safe, encoded(&right), "there is something to tell");
    for (signature, reason) in [
        (encoded(&right).to_owned(), Reason::SignatureVersion),
        (right.replace(',', "="), Reason::SignatureVersion),
        (right.replace("v1", "V1"), Reason::SignatureVersion),
        (right.replace("v1", "v1a"), Reason::SignatureScheme),
        (right[..40].to_owned(), Reason::SignatureTruncated),
        (right[..23].to_owned(), Reason::SignatureTruncated),
        (
            right.trim_end_matches('=').to_owned(),
            Reason::SignatureUrlSafe,
        ),
        (format!("v1,{url_safe}"), Reason::SignatureUrlSafe),
        (format!("v1,{hex}"), Reason::SignatureHex),
        (hex.clone(), Reason::SignatureHex),
        (format!("\"{right}\""), Reason::SignatureQuoted),
        (
            format!("webhook-signature:{right}"),
            Reason::SignatureQuoted,
        ),
        (
            format!("{},{right}", signed_with(OTHER, BODY)),
            Reason::SignatureJoined,
        ),
        (
            format!("{right},{}", signed_with(OTHER, BODY)),
            Reason::SignatureJoined,
        ),
        (
            format!("{}\t{right}", signed_with(OTHER, BODY)),
            Reason::SignatureJoined,
        ),
    ] {
        assert_eq!(
            found(|case| case.signature = signature.clone()),
            reason,
            "{signature}"
        );
    }
    for (signature, reason) in [
        ("", Reason::SignatureEmpty),
        ("v1", Reason::SignatureVersion),
        ("v2,AAAA", Reason::SignatureVersion),
        ("v1,AAAA", Reason::SignatureTruncated),
        (&signed_with(PRIVATE, BODY), Reason::SignatureScheme),
    ] {
        assert_eq!(
            by_form(|case| case.signature = signature.to_owned()),
            reason,
            "{signature}"
        );
    }
}

#[test]
fn what_is_wrong_with_the_timestamp_is_found() {
    for (timestamp, reason) in [
        ("1796040000123", Reason::TimestampMilliseconds),
        ("1796040000123456", Reason::TimestampMilliseconds),
        ("2026-11-30T12:00:00Z", Reason::TimestampText),
        ("2026-11-30T13:00:00.5+01:00", Reason::TimestampText),
        ("Mon, 30 Nov 2026 12:00:00 GMT", Reason::TimestampText),
        (" 1796040000", Reason::TimestampForm),
        ("\"1796040000\"", Reason::TimestampForm),
        ("webhook-timestamp: 1796040000", Reason::TimestampForm),
        ("1796040000.0", Reason::TimestampForm),
        ("1796040001", Reason::TimestampOther(AT)),
        ("1796039400", Reason::TimestampOther(AT)),
        ("0", Reason::TimestampOther(AT)),
        ("soon", Reason::TimestampOther(AT)),
        ("", Reason::TimestampOther(AT)),
    ] {
        assert_eq!(
            found(|case| case.timestamp = timestamp.to_owned()),
            reason,
            "{timestamp}"
        );
    }
    let lost = |timestamp: &str| {
        by_form(|case| {
            case.timestamp = timestamp.to_owned();
            case.seconds_later = 10_000;
        })
    };
    assert_eq!(lost("soon"), Reason::TimestampNotANumber);
    assert_eq!(lost("1796030000"), Reason::NoMatch);
    // Signed as it is, but no number.
    let text = "2026-11-30";
    let signature = mac(
        &STANDARD.decode(&SECRET[6..]).unwrap(),
        format!("{ID}.{text}.{BODY}").as_bytes(),
    );
    assert_eq!(
        found(|case| {
            case.timestamp = text.to_owned();
            case.signature = signature;
        }),
        Reason::TimestampNotANumber
    );
}

#[test]
fn a_wrong_clock_is_told_from_a_wrong_signature() {
    let at = |seconds| case(|case| case.seconds_later = seconds);
    assert!(at(300).is_verified());
    assert!(at(-300).is_verified());
    let old = at(301);
    assert_eq!(
        (old.reasons, old.signature_is_right),
        (vec![Reason::TooOld(301)], true)
    );
    let new = at(-3600);
    assert_eq!(
        new.message(),
        "`webhook-timestamp` is 3600 seconds ahead, more than the 300 that are allowed: this clock \
         is slow. Apart from that, the signature is right."
    );
}

#[test]
fn what_is_wrong_with_the_id_is_found() {
    for (id, reason) in [
        ("e1_kasse-nord", Reason::IdPrefix),
        (" msg_e1_kasse-nord\n", Reason::IdForm),
        ("\"msg_e1_kasse-nord\"", Reason::IdForm),
        ("webhook-id: msg_e1_kasse-nord", Reason::IdForm),
        ("msg_e1_kasse-nord.1796040000", Reason::IdDot),
    ] {
        assert_eq!(found(|case| case.id = id.to_owned()), reason, "{id}");
    }
    assert_eq!(
        found(|case| std::mem::swap(&mut case.id, &mut case.timestamp)),
        Reason::IdSwapped
    );
    let signature = mac(
        &STANDARD.decode(&SECRET[6..]).unwrap(),
        format!("msg_1.2.{AT}.{BODY}").as_bytes(),
    );
    assert_eq!(
        found(|case| {
            case.id = "msg_1.2".to_owned();
            case.signature = signature;
        }),
        Reason::IdDot
    );
    assert_eq!(by_form(|case| case.id = String::new()), Reason::IdEmpty);
    assert_eq!(
        by_form(|case| case.id = "msg_other".to_owned()),
        Reason::NoMatch
    );
    assert_eq!(
        by_form(|case| case.id = "msg_other.1".to_owned()),
        Reason::IdDot
    );
}

/// What was sent, what is at hand, and the reason that is found.
fn body(sent: &str, at_hand: impl Into<Vec<u8>>) -> Reason {
    found(|case| {
        case.signature = signed_with(SECRET, sent);
        case.body = at_hand.into();
    })
}

#[test]
fn what_was_done_to_the_bytes_of_the_body_is_found() {
    let line = format!("{BODY}\n");
    let pretty = "{\n  \"a\": 1\n}";
    assert_eq!(body(BODY, line.clone()), Reason::BodyNewlineAdded);
    assert_eq!(body(BODY, format!("{BODY}\r\n")), Reason::BodyNewlineAdded);
    assert_eq!(body(&line, BODY), Reason::BodyNewlineMissing);
    assert_eq!(
        body(BODY, format!("\u{feff}{BODY}")),
        Reason::BodyByteOrderMark
    );
    assert_eq!(
        body(pretty, pretty.replace('\n', "\r\n")),
        Reason::BodyLineEndsCrlf
    );
    assert_eq!(
        body(&pretty.replace('\n', "\r\n"), pretty),
        Reason::BodyLineEndsLf
    );
    assert_eq!(body(BODY, format!("  {BODY} \n\n")), Reason::BodyWhiteSpace);
    assert_eq!(body(BODY, STANDARD.encode(BODY)), Reason::BodyBase64);
    assert_eq!(
        body(BODY, serde_json::to_string(BODY).unwrap()),
        Reason::BodyDoubleEncoded
    );
    let latin: Vec<u8> = BODY.chars().map(|c| u8::try_from(c).unwrap()).collect();
    assert_eq!(body(BODY, latin), Reason::BodyCharset);
    let mojibake: String = BODY.bytes().map(char::from).collect();
    assert_eq!(body(BODY, mojibake), Reason::BodyCharset);
    assert_eq!(by_form(|case| case.body.clear()), Reason::BodyEmpty);
    assert_eq!(by_form(|case| case.body = b"{}".to_vec()), Reason::NoMatch);
}

#[test]
fn json_that_was_written_anew_is_found_with_how_it_was_written() {
    let form = |spacing, in_data, order, escapes| {
        Reason::BodyReserialised(rewrite::Form {
            spacing,
            in_data,
            order,
            escapes,
        })
    };
    let (as_is, few) = (Order::AsIs, Escapes::AsIs);
    let compact = r#"{"type":"T","data":{"a":[1.0,2],"b":"\u00e9"}}"#;
    let python = r#"{"type": "T", "data": {"a": [1.0, 2], "b": "\u00e9"}}"#;
    let two = "{\n  \"type\": \"T\",\n  \"data\": {\n    \"a\": [\n      1.0,\n      2\n    ],\n    \"b\": \"\\u00e9\"\n  }\n}";
    let in_data = r#"{"type":"T","data":{"a": [1.0, 2], "b": "\u00e9"}}"#;
    let four = two.replace("  ", "    ");
    for (sent, at_hand, reason) in [
        (compact, python, form(Spacing::Compact, false, as_is, few)),
        (compact, two, form(Spacing::Compact, false, as_is, few)),
        (python, compact, form(Spacing::Spaced, false, as_is, few)),
        (two, compact, form(Spacing::Lines(2), false, as_is, few)),
        (&four, compact, form(Spacing::Lines(4), false, as_is, few)),
        (in_data, compact, form(Spacing::Spaced, true, as_is, few)),
        (
            r#"{"type":"T","data":{"a":[1.0,2],"b":"é"}}"#,
            compact,
            form(Spacing::Compact, false, as_is, Escapes::Few),
        ),
        (
            compact,
            r#"{"type":"T","data":{"a":[1.0,2],"b":"é"}}"#,
            form(Spacing::Compact, false, as_is, Escapes::Ascii),
        ),
        (
            r#"{"u":"https:\/\/x"}"#,
            r#"{"u":"https://x"}"#,
            form(Spacing::Compact, false, as_is, Escapes::AsciiAndSlashes),
        ),
        (
            compact,
            r#"{"data":{"a":[1.0,2],"b":"\u00e9"},"type":"T"}"#,
            form(Spacing::Compact, false, Order::Payload, few),
        ),
        (
            r#"{"a":1,"b":2}"#,
            r#"{"b":2,"a":1}"#,
            form(Spacing::Compact, false, Order::Sorted, few),
        ),
    ] {
        assert_eq!(body(sent, at_hand), reason, "{at_hand}");
    }
}

#[test]
fn the_mistakes_of_a_signer_are_found() {
    let content = format!("{ID}.{AT}.{BODY}");
    let key = STANDARD.decode(&SECRET[6..]).unwrap();
    for (signature, reason) in [
        (
            mac(SECRET.as_bytes(), content.as_bytes()),
            Reason::SecretAsText,
        ),
        (
            mac(&SECRET.as_bytes()[6..], content.as_bytes()),
            Reason::SecretAsText,
        ),
        (mac(&key, BODY.as_bytes()), Reason::SignedBodyOnly),
        (
            mac(&key, format!("{AT}.{BODY}").as_bytes()),
            Reason::SignedWithoutId,
        ),
    ] {
        assert_eq!(found(|case| case.signature = signature.clone()), reason);
    }
    assert_eq!(
        by_form(|case| case.secret = OTHER.to_owned()),
        Reason::NoMatch
    );
}

#[test]
fn several_things_that_are_wrong_are_all_told() {
    let diagnosis = case(|case| {
        case.secret = format!("'{SECRET}'");
        case.timestamp = "1796040000000".to_owned();
        case.body.push(b'\n');
    });
    assert_eq!(
        diagnosis.reasons,
        [
            Reason::SecretQuoted,
            Reason::TimestampMilliseconds,
            Reason::BodyNewlineAdded
        ]
    );
    assert_eq!(
        diagnosis.message(),
        "The secret has quotes around it: leave them out. `webhook-timestamp` is in milliseconds \
         or smaller; it is seconds that are signed. A line break was added at the end of the body. \
         Apart from that, the signature is right."
    );
}

#[test]
fn a_search_that_would_take_too_long_is_given_up_and_says_so() {
    let wrong = |case: &mut Case| case.secret = OTHER.to_owned();
    let whole = case_within(BUDGET_BYTES, wrong);
    assert_eq!(whole.reasons, [Reason::NoMatch]);
    assert!(!whole.search_was_cut);
    let cut = case_within(10_000, wrong);
    assert_eq!(cut.reasons, [Reason::NoMatch]);
    assert!(cut.search_was_cut);
    assert!(
        cut.message().ends_with(
            " Not everything was tried: that would take too long with so large a body, or so many \
             signatures or secrets."
        ),
        "{cut:?}"
    );
    // What is right is found whatever it costs.
    let right = case_within(0, |_| {});
    assert!(right.is_verified() && !right.search_was_cut);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_valid_signature_is_always_verified(
        key in prop::collection::vec(any::<u8>(), 24..=64),
        body in prop::collection::vec(any::<u8>(), 0..200),
        id in "[A-Za-z0-9_-]{1,60}",
        at in 1_000_000_000_u64..4_000_000_000,
        later in -300_i64..=300,
    ) {
        let secret = format!("whsec_{}", STANDARD.encode(key));
        let now = UNIX_EPOCH + Duration::from_secs(at.saturating_add_signed(later));
        let secrets = SigningSecrets::parse(&secret).unwrap();
        let signature = sign(&secrets, &id, at, &body, now).unwrap();
        let timestamp = at.to_string();
        let signed = Signed { id: &id, timestamp: &timestamp, signature: &signature };
        let diagnosis = diagnose(Request { signed, secret: &secret, body: &body }, now);
        prop_assert!(diagnosis.is_verified(), "{diagnosis:?}");
    }

    #[test]
    fn a_valid_signature_is_always_verified_with_the_public_key(
        seed in any::<[u8; 32]>(),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let private = secret_text(Scheme::V1a, &seed);
        let secrets = SigningSecrets::parse(&private).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(AT);
        let signature = sign(&secrets, ID, AT, &body, now).unwrap();
        let timestamp = AT.to_string();
        let signed = Signed { id: ID, timestamp: &timestamp, signature: &signature };
        for secret in [public_key(&private), private] {
            let diagnosis = diagnose(Request { signed, secret: &secret, body: &body }, now);
            prop_assert!(diagnosis.is_verified(), "{diagnosis:?}");
        }
    }

    #[test]
    fn a_changed_byte_is_never_verified(
        which in 0_usize..4,
        at in any::<prop::sample::Index>(),
        mask in 1_u8..=127,
    ) {
        let diagnosis = case(|case| {
            let text = match which {
                0 => &mut case.id,
                1 => &mut case.timestamp,
                2 => &mut case.signature,
                _ => {
                    let place = at.index(case.body.len());
                    case.body[place] ^= mask;
                    return;
                }
            };
            let mut bytes = text.clone().into_bytes();
            let place = at.index(bytes.len());
            bytes[place] ^= mask;
            if let Ok(changed) = String::from_utf8(bytes) {
                *text = changed;
            } else {
                text.pop();
            }
        });
        prop_assert!(!diagnosis.is_verified(), "{diagnosis:?}");
        prop_assert_ne!(diagnosis.message(), "");
    }
}
