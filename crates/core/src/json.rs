//! Reading JSON objects from people we do not know.
//!
//! Two things that serde does by itself would hurt: it takes a list for a struct, field by field
//! in order, so that `[]` can pass for an object; and its errors quote what they found, which may
//! be a whole payload.

use serde::Deserialize;
use serde::de::Error as _;

/// Why a text is not the JSON object that was expected. Names fields and positions, and never
/// quotes the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JsonError(String);

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        // These two only name our own fields.
        let names_a_field = ["missing field `", "duplicate field `"]
            .iter()
            .any(|start| text.starts_with(start));
        if names_a_field || text.starts_with(NOT_AN_OBJECT) {
            return Self(text);
        }
        let problem = match error.classify() {
            serde_json::error::Category::Data => "a value of another type than expected",
            serde_json::error::Category::Eof => "incomplete JSON",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "not JSON",
        };
        Self(format!(
            "{problem} at line {} column {}",
            error.line(),
            error.column()
        ))
    }
}

const NOT_AN_OBJECT: &str = "not a JSON object";

/// Reads a struct from a JSON object, and from nothing else.
///
/// # Errors
/// If the text is not JSON, not an object, or not of that shape.
pub fn object<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, JsonError> {
    if is_object(text) {
        Ok(serde_json::from_str(text)?)
    } else if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error.into())
    } else {
        Err(serde_json::Error::custom(NOT_AN_OBJECT).into())
    }
}

/// Whether a JSON text begins as an object does.
#[must_use]
pub(crate) fn is_object(text: &str) -> bool {
    text.trim_start_matches([' ', '\t', '\n', '\r'])
        .starts_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Pair {
        a: u32,
        b: u32,
    }

    fn message(text: &str) -> String {
        object::<Pair>(text).unwrap_err().to_string()
    }

    #[test]
    fn an_object_is_read_with_white_space_around_it() {
        assert_eq!(object(" \r\n\t{\"a\":1,\"b\":2} "), Ok(Pair { a: 1, b: 2 }));
    }

    #[test]
    fn a_list_does_not_pass_for_an_object() {
        for text in ["[1,2]", " [1,2]", "[]", "null", "\"text\"", "7"] {
            assert_eq!(message(text), "not a JSON object", "{text}");
        }
    }

    #[test]
    fn an_error_tells_the_field_or_the_place_and_nothing_of_the_text() {
        for (text, expected) in [
            ("", "incomplete JSON at line 1 column 0"),
            ("hello", "not JSON at line 1 column 1"),
            ("{\"a\":1", "incomplete JSON at line 1 column 6"),
            ("{\"a\":1}", "missing field `b` at line 1 column 7"),
            (
                "{\"a\":1,\"a\":1}",
                "duplicate field `a` at line 1 column 10",
            ),
            (
                "{\"a\":\"4111 1111\",\"b\":1}",
                "a value of another type than expected at line 1 column 16",
            ),
        ] {
            assert_eq!(message(text), expected, "{text}");
        }
    }
}
