//! The same JSON in other words: as the libraries of several languages would have written it.
//!
//! Numbers and, unless asked for, texts stay as they are written; only white space, the order of
//! keys and escapes change. So what comes out means the same as what went in.

use serde::de::IgnoredAny;

/// How JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The white space.
    pub spacing: Spacing,
    /// Whether only the value of `data` has it, in an object that has none.
    pub in_data: bool,
    /// The keys of objects.
    pub order: Order,
    /// What is escaped in texts.
    pub escapes: Escapes,
}

/// White space in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// None.
    Compact,
    /// A space after `:` and `,`, as Python's `json.dumps` writes.
    Spaced,
    /// A line for each member, indented by this many spaces.
    Lines(usize),
}

/// The order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they come.
    AsIs,
    /// Sorted.
    Sorted,
    /// `type`, `timestamp`, `data` on top, the others as they come.
    Payload,
}

/// What is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escapes {
    /// What is escaped already.
    AsIs,
    /// Only what must be.
    Few,
    /// All that is not ASCII.
    Ascii,
    /// That, and slashes, as PHP's `json_encode` does.
    AsciiAndSlashes,
}

impl Form {
    /// All forms that are tried, the simplest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let orders = [Order::AsIs, Order::Payload, Order::Sorted];
        let escapes = [
            Escapes::AsIs,
            Escapes::Few,
            Escapes::Ascii,
            Escapes::AsciiAndSlashes,
        ];
        let spacings = [
            Spacing::Compact,
            Spacing::Spaced,
            Spacing::Lines(2),
            Spacing::Lines(4),
        ];
        orders.into_iter().flat_map(move |order| {
            escapes.into_iter().flat_map(move |escapes| {
                spacings.into_iter().flat_map(move |spacing| {
                    [false, true].into_iter().map(move |in_data| Self {
                        spacing,
                        in_data,
                        order,
                        escapes,
                    })
                })
            })
        })
    }

    /// The form in words that follow "the same JSON".
    pub(super) fn words(self) -> String {
        let place = if self.in_data { " within `data`" } else { "" };
        let mut words = match self.spacing {
            Spacing::Compact => "without white space".to_owned(),
            Spacing::Spaced => format!("with a space after `:` and `,`{place}"),
            Spacing::Lines(indent) => format!("in lines indented by {indent} spaces{place}"),
        };
        words += match self.order {
            Order::AsIs => "",
            Order::Sorted => ", its keys sorted",
            Order::Payload => ", its keys in the order `type`, `timestamp`, `data`",
        };
        words += match self.escapes {
            Escapes::AsIs => "",
            Escapes::Few => ", its characters not escaped",
            Escapes::Ascii => ", what is not ASCII as \\u escapes",
            Escapes::AsciiAndSlashes => ", slashes and what is not ASCII escaped",
        };
        words
    }
}

/// A JSON text, split.
#[derive(Debug, Clone)]
pub(super) enum Json<'a> {
    /// A number, `true`, `false` or `null`.
    Word(&'a str),
    /// A text in its quotes.
    Text(&'a str),
    List(Vec<Self>),
    Object(Vec<(&'a str, Self)>),
}

impl<'a> Json<'a> {
    /// Splits a JSON text; `None` if it is none.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if is_too_deep(text) {
            return None;
        }
        // From here on everything is where it belongs, and not too deep.
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        Reader { rest: text }.value()
    }

    /// The text in another form; `None` if the form is not for this one.
    pub(super) fn write(&self, form: Form) -> Option<String> {
        let mut out = String::new();
        if !form.in_data {
            self.append(form, 0, true, &mut out)?;
            return Some(out);
        }
        let Self::Object(members) = self else {
            return None;
        };
        if form.spacing == Spacing::Compact || !members.iter().any(|(key, _)| *key == DATA) {
            return None;
        }
        let compact = Form {
            spacing: Spacing::Compact,
            ..form
        };
        out.push('{');
        for (number, (key, value)) in ordered(members, form.order, true).into_iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            out.push_str(&rewritten(key, form.escapes)?);
            out.push(':');
            let form = if *key == DATA { form } else { compact };
            value.append(form, 0, false, &mut out)?;
        }
        out.push('}');
        Some(out)
    }

    fn append(&self, form: Form, depth: usize, on_top: bool, out: &mut String) -> Option<()> {
        if out.len() > MAX_WRITTEN_BYTES {
            return None;
        }
        match self {
            Self::Word(word) => out.push_str(word),
            Self::Text(text) => out.push_str(&rewritten(text, form.escapes)?),
            Self::List(values) => {
                out.push('[');
                for (number, value) in values.iter().enumerate() {
                    form.spacing.before(number, depth + 1, out);
                    value.append(form, depth + 1, false, out)?;
                }
                form.spacing.after(values.len(), depth, out);
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                let members = ordered(members, form.order, on_top);
                for (number, (key, value)) in members.iter().enumerate() {
                    form.spacing.before(number, depth + 1, out);
                    out.push_str(&rewritten(key, form.escapes)?);
                    out.push_str(match form.spacing {
                        Spacing::Compact => ":",
                        Spacing::Spaced | Spacing::Lines(_) => ": ",
                    });
                    value.append(form, depth + 1, false, out)?;
                }
                form.spacing.after(members.len(), depth, out);
                out.push('}');
            }
        }
        Some(())
    }
}

/// How deep lists and objects may be in each other: all that is done with them is recursive.
const MAX_DEPTH: usize = 128;

/// A form that becomes longer than this is given up.
const MAX_WRITTEN_BYTES: usize = 2 * 1024 * 1024;

/// Whether JSON is deeper than [`MAX_DEPTH`].
fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// The key whose value is passed on as it was published.
const DATA: &str = "\"data\"";

impl Spacing {
    fn before(self, number: usize, depth: usize, out: &mut String) {
        if number > 0 {
            out.push(',');
        }
        match self {
            Self::Compact => {}
            Self::Spaced if number > 0 => out.push(' '),
            Self::Spaced => {}
            Self::Lines(indent) => new_line(indent * depth, out),
        }
    }

    fn after(self, count: usize, depth: usize, out: &mut String) {
        match self {
            Self::Lines(indent) if count > 0 => new_line(indent * depth, out),
            Self::Compact | Self::Spaced | Self::Lines(_) => {}
        }
    }
}

fn new_line(spaces: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', spaces));
}

fn ordered<'b, 'a>(
    members: &'b [(&'a str, Json<'a>)],
    order: Order,
    on_top: bool,
) -> Vec<&'b (&'a str, Json<'a>)> {
    let mut members: Vec<_> = members.iter().collect();
    match order {
        Order::AsIs => {}
        Order::Sorted => members.sort_by_key(|(key, _)| *key),
        Order::Payload if on_top => members.sort_by_key(|(key, _)| match *key {
            "\"type\"" => 0,
            "\"timestamp\"" => 1,
            DATA => 2,
            _ => 3,
        }),
        Order::Payload => {}
    }
    members
}

/// A text in its quotes with other escapes.
fn rewritten(raw: &str, escapes: Escapes) -> Option<String> {
    let slashes = match escapes {
        Escapes::AsIs => return Some(raw.to_owned()),
        Escapes::Few => return serde_json::to_string(&plain(raw)?).ok(),
        Escapes::Ascii => false,
        Escapes::AsciiAndSlashes => true,
    };
    let few = serde_json::to_string(&plain(raw)?).ok()?;
    let mut out = String::with_capacity(few.len());
    for c in few.chars() {
        match c {
            '/' if slashes => out.push_str("\\/"),
            c if c.is_ascii() => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    Some(out)
}

fn plain(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

/// Splits what is known to be JSON.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Option<Json<'a>> {
        match self.peek()? {
            '{' => self
                .members('}', |reader| {
                    let key = reader.text()?;
                    reader.peek()?;
                    reader.take(1)?;
                    Some((key, reader.value()?))
                })
                .map(Json::Object),
            '[' => self.members(']', Self::value).map(Json::List),
            '"' => self.text().map(Json::Text),
            _ => {
                let end = self.rest.find([',', ']', '}', ' ', '\t', '\n', '\r']);
                let end = end.unwrap_or(self.rest.len());
                self.take(end).map(Json::Word)
            }
        }
    }

    fn members<T>(&mut self, end: char, member: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut members = Vec::new();
        self.take(1)?;
        loop {
            match self.peek()? {
                ',' => {
                    self.take(1)?;
                }
                c if c == end => {
                    self.take(1)?;
                    return Some(members);
                }
                _ => members.push(member(self)?),
            }
        }
    }

    /// The first character after white space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest.chars().next()
    }

    /// A text with its quotes.
    fn text(&mut self) -> Option<&'a str> {
        self.peek()?;
        let mut is_escaped = false;
        let end = self.rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        self.take(end + 2)
    }

    fn take(&mut self, bytes: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, form: Form) -> Option<String> {
        Json::parse(text).unwrap().write(form)
    }

    const FORM: Form = Form {
        spacing: Spacing::Compact,
        in_data: false,
        order: Order::AsIs,
        escapes: Escapes::AsIs,
    };

    #[test]
    fn white_space_changes_and_nothing_else() {
        let text = " {\"b\" :[1.0 ,\n{}, [] ],\"a\": \"\\u00e9 \\\" ,]}\" , \"a\":null}\n";
        for (spacing, expected) in [
            (
                Spacing::Compact,
                r#"{"b":[1.0,{},[]],"a":"\u00e9 \" ,]}","a":null}"#,
            ),
            (
                Spacing::Spaced,
                r#"{"b": [1.0, {}, []], "a": "\u00e9 \" ,]}", "a": null}"#,
            ),
            (
                Spacing::Lines(2),
                "{\n  \"b\": [\n    1.0,\n    {},\n    []\n  ],\n  \"a\": \"\\u00e9 \\\" ,]}\",\n  \"a\": null\n}",
            ),
        ] {
            let form = Form { spacing, ..FORM };
            assert_eq!(written(text, form).unwrap(), expected);
        }
    }

    #[test]
    fn only_the_data_of_a_payload_can_have_white_space() {
        let text = r#"{"type":"T","timestamp":"t","data":{"a":[1,2]}}"#;
        let form = Form {
            spacing: Spacing::Spaced,
            in_data: true,
            ..FORM
        };
        assert_eq!(
            written(text, form).unwrap(),
            r#"{"type":"T","timestamp":"t","data":{"a": [1, 2]}}"#
        );
        assert_eq!(written("[1]", form), None);
        assert_eq!(written(r#"{"a":1}"#, form), None);
    }

    #[test]
    fn keys_are_sorted_and_texts_escaped_as_other_languages_do() {
        let text = r#"{"data":{"z":"é/😀","a":"\u00e9"},"type":"T"}"#;
        for (order, escapes, expected) in [
            (
                Order::Payload,
                Escapes::AsIs,
                r#"{"type":"T","data":{"z":"é/😀","a":"\u00e9"}}"#,
            ),
            (
                Order::Sorted,
                Escapes::Few,
                r#"{"data":{"a":"é","z":"é/😀"},"type":"T"}"#,
            ),
            (
                Order::AsIs,
                Escapes::Ascii,
                r#"{"data":{"z":"\u00e9/\ud83d\ude00","a":"\u00e9"},"type":"T"}"#,
            ),
            (
                Order::AsIs,
                Escapes::AsciiAndSlashes,
                r#"{"data":{"z":"\u00e9\/\ud83d\ude00","a":"\u00e9"},"type":"T"}"#,
            ),
        ] {
            let form = Form {
                order,
                escapes,
                ..FORM
            };
            assert_eq!(written(text, form).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_json_is_not_rewritten() {
        for text in ["", "{", "{\"a\"}", "hello", "{} {}"] {
            assert!(Json::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_is_too_deep_or_becomes_too_long_is_not_rewritten() {
        let nested = |depth: usize, inner: &str| {
            format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth))
        };
        assert!(Json::parse(&nested(128, "")).is_some());
        assert!(Json::parse(&nested(129, "")).is_none());
        assert!(Json::parse(&nested(10_000, "")).is_none());
        let many = nested(127, &vec!["1"; 20_000].join(","));
        let lines = Form {
            spacing: Spacing::Lines(4),
            ..FORM
        };
        assert_eq!(written(&many, lines), None);
        assert_eq!(written(&many, FORM).unwrap(), many);
    }
}
