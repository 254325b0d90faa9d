//! CBOR (RFC 8949), as far as CloudWatch speaks it: what JSON has too.

use serde_json::{Map, Value};

/// Writes a value.
pub(super) fn write(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    append(value, &mut out);
    out
}

fn append(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(false) => out.push(0xf4),
        Value::Bool(true) => out.push(0xf5),
        Value::Number(number) => head(0, number.as_u64().expect("a whole number"), out),
        Value::String(text) => {
            head(3, text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Array(values) => {
            head(4, values.len() as u64, out);
            for value in values {
                append(value, out);
            }
        }
        Value::Object(members) => {
            head(5, members.len() as u64, out);
            for (name, value) in members {
                append(&Value::String(name.clone()), out);
                append(value, out);
            }
        }
    }
}

fn head(major: u8, number: u64, out: &mut Vec<u8>) {
    out.push((major << 5) | 27);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Reads a value.
pub(super) fn read(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    Reader(bytes).value().expect("it has an end")
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// `None` where a list or an object of unknown length ends.
    fn value(&mut self) -> Option<Value> {
        let first = self.take(1)[0];
        let (major, short) = (first >> 5, first & 31);
        if first == 0xff {
            return None;
        }
        let length = match short {
            0..=23 => Some(u64::from(short)),
            24..=27 => {
                let bytes = self.take(1 << (short - 24));
                let number = bytes
                    .iter()
                    .fold(0, |all, byte| (all << 8) | u64::from(*byte));
                Some(number)
            }
            _ => None,
        };
        let count = length.map_or(usize::MAX, |length| usize::try_from(length).unwrap());
        Some(match major {
            0 => length.into(),
            2 | 3 => String::from_utf8(self.take(count).to_vec()).unwrap().into(),
            4 => (0..count)
                .map_while(|_| self.value())
                .collect::<Vec<_>>()
                .into(),
            5 => (0..count)
                .map_while(|_| {
                    let name = self.value()?.as_str().expect("a name").to_owned();
                    Some((name, self.value()?))
                })
                .collect::<Map<_, _>>()
                .into(),
            7 if short == 20 => false.into(),
            7 if short == 21 => true.into(),
            7 => Value::Null,
            _ => panic!("major type {major}"),
        })
    }

    fn take(&mut self, bytes: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let value = json!({"a": [1, 300, true, false, null], "b": {"c": "größe"}});
        assert_eq!(read(&write(&value)), value);
        // {_ "a": [_ 1, 24]}, both of unknown length.
        assert_eq!(
            read(b"\xbf\x61a\x9f\x01\x18\x18\xff\xff"),
            json!({"a": [1, 24]})
        );
    }
}
