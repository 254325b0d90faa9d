//! Texts as others write them: good, nearly good, and none of it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use webhooks_core::identity::SubscriberId;

/// Any characters at all, control characters and those that SQS refuses among them.
pub fn text(longest: usize) -> impl Strategy<Value = String> {
    let awkward = ['\u{fffe}', '\u{ffff}', '\0', '"', '\\', '\u{7f}', '.'];
    let character = prop_oneof![
        4 => any::<char>(),
        1 => select(awkward.to_vec()),
    ];
    vec(character, 0..longest).prop_map(String::from_iter)
}

/// A good text with some of it replaced, which gets further than any text at all.
pub fn damaged(good: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (good, any::<Index>(), 0..20_usize, text(4)).prop_map(|(good, at, taken, put)| {
        let characters: Vec<char> = good.chars().collect();
        let at = at.index(characters.len() + 1);
        let end = (at + taken).min(characters.len());
        let before = characters[..at].iter().copied();
        let after = characters[end..].iter().copied();
        before.chain(put.chars()).chain(after).collect()
    })
}

/// The JSON text of an object, with white space wherever it may stand.
pub fn json_object() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(vec!["null", "true", "false"]).prop_map(String::from),
        r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        json_string(),
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        let element = (space(), inner.clone(), space());
        let list = vec(element, 0..4).prop_map(|elements| {
            let elements = elements
                .into_iter()
                .map(|(before, value, after)| before + &value + &after);
            format!("[{}]", elements.collect::<Vec<_>>().join(","))
        });
        prop_oneof![list, object_of(inner)]
    });
    object_of(value)
}

fn object_of(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (space(), json_string(), space(), value, space());
    vec(member, 0..4).prop_map(|members| {
        let members = members
            .into_iter()
            .map(|(a, name, b, value, c)| format!("{a}{name}{b}:{b}{value}{c}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

/// A string with every kind of escape, lone surrogates too.
fn json_string() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => r#""([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,8}""#,
        1 => Just("\"\u{ffff}\u{fffe}\"".to_owned()),
    ]
}

fn space() -> &'static str {
    r"[ \t\r\n]{0,2}"
}

/// What an EventBridge event says.
#[derive(Clone, Debug)]
pub struct Said {
    pub json: String,
    pub id: String,
    pub event_type: String,
    pub time: String,
    pub detail: String,
}

/// An event, with its members in any order.
pub fn event() -> impl Strategy<Value = Said> {
    // A character has four bytes at most.
    let field = |longest_bytes: usize| {
        text(longest_bytes / 4).prop_map(|text| if text.is_empty() { "x".into() } else { text })
    };
    let fields = (
        field(256),
        field(64),
        field(64),
        json_object(),
        json_object(),
    );
    fields.prop_flat_map(|(id, event_type, time, detail, other)| {
        let members = vec![
            format!(r#""id":{}"#, quoted(&id)),
            format!(r#""detail-type" : {}"#, quoted(&event_type)),
            format!(r#""time":{}"#, quoted(&time)),
            format!("\"detail\":\n{detail} "),
            format!(r#""added-later":{other}"#),
        ];
        Just(members).prop_shuffle().prop_map(move |members| Said {
            json: format!("{{{}}}", members.join(",")),
            id: id.clone(),
            event_type: event_type.clone(),
            time: time.clone(),
            detail: detail.clone(),
        })
    })
}

pub fn subscriber_id() -> impl Strategy<Value = SubscriberId> {
    "[A-Za-z0-9_-]{1,64}".prop_map(|text| SubscriberId::parse(&text).unwrap())
}

/// The JSON text of a string.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}
