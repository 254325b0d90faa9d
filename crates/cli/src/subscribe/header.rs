//! The headers of the command line. What is refused is named by its number or its name, since a
//! value may be a credential.

use webhooks_core::header::{CustomHeaders, is_reserved};

use crate::error::Error;

/// Reads the headers, each `Name: value`.
///
/// # Errors
/// If one of them can not be sent, or is not a subscription's to set.
pub(super) fn headers(texts: &[String]) -> Result<CustomHeaders, Error> {
    let mut pairs = Vec::new();
    for (text, number) in texts.iter().zip(1..) {
        let (name, value) = text.split_once(':').ok_or_else(|| {
            Error::Usage(format!(
                "--header number {number} is not of the form 'Name: value'"
            ))
        })?;
        if is_reserved(name) {
            return Err(Error::Usage(format!(
                "--header `{name}` can not be set by a subscription: it is reserved, as it signs, \
                 frames or routes the request"
            )));
        }
        pairs.push((name, value.trim()));
    }
    CustomHeaders::new(pairs).map_err(|error| Error::Usage(format!("--header: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<(String, String)>, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let headers = headers(&texts).map_err(|error| error.to_string())?;
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Ok(headers.iter().map(owned).collect())
    }

    #[test]
    fn a_header_is_a_name_and_a_value() {
        assert_eq!(
            read(&["X-Api-Key:  a: b ", "x-empty:"]),
            Ok(vec![
                ("x-api-key".into(), "a: b".into()),
                ("x-empty".into(), String::new()),
            ])
        );
    }

    #[test]
    fn what_is_refused_is_named_and_its_value_is_not_said() {
        for (headers, message) in [
            (
                &["x-a: 1", "hidden"][..],
                "--header number 2 is not of the form 'Name: value'",
            ),
            (
                &["Webhook-Signature: hidden"],
                "--header `Webhook-Signature` can not be set by a subscription: it is reserved, as \
                 it signs, frames or routes the request",
            ),
            (
                &["content-type: hidden"],
                "--header `content-type` can not be set by a subscription: it is reserved, as it \
                 signs, frames or routes the request",
            ),
            (
                &["x-a: hid\r\nx-b: den"],
                "--header: the value of the header `x-a` must be visible ASCII with spaces only \
                 inside, at most 1024 characters",
            ),
            (
                &["x-a: 1", "X-A: 2"],
                "--header: the header `x-a` is there twice",
            ),
        ] {
            assert_eq!(read(headers), Err(message.to_owned()), "{headers:?}");
        }
    }
}
