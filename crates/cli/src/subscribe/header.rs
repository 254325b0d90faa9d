//! The headers of the command line and of the file that it names. What is refused is named by its number or its name, since a
//! value may be a credential.

use std::fmt;

use webhooks_core::header::{CustomHeaders, is_reserved};

use crate::error::Error;

/// `Name: value`, as it was typed. `Debug` tells the name alone.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderText(String);

impl From<String> for HeaderText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a colon it may be the value alone.
        let name = self.0.split_once(':').map(|(name, _)| name);
        f.debug_tuple("HeaderText").field(&name).finish()
    }
}

/// Reads the headers, each `Name: value`: those of the command line, and the lines of a file, which
/// comes with its name. Lines of white space are none.
///
/// # Errors
/// If one of them can not be sent, or is not a subscription's to set, or if the file has none.
pub(super) fn headers(
    texts: &[HeaderText],
    file: Option<(&str, &str)>,
) -> Result<CustomHeaders, Error> {
    let mut pairs = Vec::new();
    for (HeaderText(text), number) in texts.iter().zip(1..) {
        pairs.push(pair(text, "--header", "number", number)?);
    }
    if let Some((path, text)) = file {
        let lines = text.lines().zip(1..);
        let mut lines = lines.filter(|(line, _)| !line.trim().is_empty()).peekable();
        if lines.peek().is_none() {
            return Err(Error::Usage(format!(
                "--header-file `{path}` has no header in it; --no-headers removes those that are there"
            )));
        }
        for (line, number) in lines {
            pairs.push(pair(line, "--header-file", "line", number)?);
        }
    }
    let option = if file.is_some() {
        "--header-file"
    } else {
        "--header"
    };
    CustomHeaders::new(pairs).map_err(|error| Error::Usage(format!("{option}: {error}")))
}

fn pair<'a>(
    text: &'a str,
    option: &str,
    unit: &str,
    number: u32,
) -> Result<(&'a str, &'a str), Error> {
    let (name, value) = text.split_once(':').ok_or_else(|| {
        Error::Usage(format!(
            "{option} {unit} {number} is not of the form 'Name: value'"
        ))
    })?;
    if is_reserved(name) {
        return Err(Error::Usage(format!(
            "{option} `{name}` can not be set by a subscription: it is reserved, as it signs, frames \
             or routes the request"
        )));
    }
    Ok((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<(String, String)>, String> {
        read_with(texts, None)
    }

    fn read_with(texts: &[&str], file: Option<&str>) -> Result<Vec<(String, String)>, String> {
        let texts = texts.iter().map(|text| HeaderText((*text).to_owned()));
        let texts: Vec<HeaderText> = texts.collect();
        let file = file.map(|text| ("keys", text));
        let headers = headers(&texts, file).map_err(|error| error.to_string())?;
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
    fn a_file_has_a_header_on_each_line_beside_those_of_the_command_line() {
        assert_eq!(
            read_with(&["x-b: 2"], Some("X-Api-Key: @a: b\r\n\n  \nx-c:3")),
            Ok(vec![
                ("x-api-key".into(), "@a: b".into()),
                ("x-b".into(), "2".into()),
                ("x-c".into(), "3".into()),
            ])
        );
        for (file, message) in [
            (
                "\n \n",
                "--header-file `keys` has no header in it; --no-headers removes those that are there",
            ),
            (
                "x-a: 1\n\nhidden",
                "--header-file line 3 is not of the form 'Name: value'",
            ),
            (
                "host: hidden",
                "--header-file `host` can not be set by a subscription: it is reserved, as it signs, \
                 frames or routes the request",
            ),
            (
                "x-b: hidden",
                "--header-file: the header `x-b` is there twice",
            ),
        ] {
            let read = read_with(&["x-b: 2"], Some(file));
            assert_eq!(read, Err(message.to_owned()), "{file:?}");
        }
    }

    #[test]
    fn debug_output_tells_names_and_no_values() {
        let texts = ["x-a: hidden", "hidden"].map(|text| HeaderText(text.to_owned()));
        assert_eq!(
            format!("{texts:?}"),
            r#"[HeaderText(Some("x-a")), HeaderText(None)]"#
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
