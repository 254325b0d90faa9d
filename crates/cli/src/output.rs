//! What is printed: one report on standard output, as text or as JSON, and everything else on
//! standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use crate::error::{Error, Exit};

/// What a verb gives: `Display` is its text, which ends without a line break.
pub trait Report: Serialize + Display {
    /// How the command ends after the report is printed.
    fn exit(&self) -> Exit {
        Exit::Done
    }
}

/// Prints a report to standard output.
///
/// # Errors
/// If it can not be written. A reader that wanted no more, like `head`, is none.
pub fn print(report: &impl Report, json: bool) -> Result<Exit, Error> {
    let mut text = if json {
        let text = serde_json::to_string_pretty(report);
        safe_json(&text.map_err(|error| Error::Failed(error.to_string()))?)
    } else {
        safe_lines(&report.to_string())
    };
    text.push('\n');
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Failed(format!(
            "standard output can not be written: {error}"
        ))),
        Ok(()) | Err(_) => Ok(report.exit()),
    }
}

/// Says something on standard error, on a line of its own.
pub fn note(text: &str) {
    // Nobody is left to tell if this can not be written.
    let _ = writeln!(io::stderr().lock(), "{}", safe_lines(text));
}

/// The same of what is one line, whatever the values in it are: none of them begins another one.
pub fn note_line(text: &str) {
    note(&safe(text));
}

/// The most lines about odd rows.
const MOST_NOTES: usize = 10;

/// Says what is odd about what was read, the first of it in words.
pub fn notes(odd: &[String]) {
    for text in odd.iter().take(MOST_NOTES) {
        note_line(text);
    }
    if let Some(more) = odd.len().checked_sub(MOST_NOTES).filter(|more| *more > 0) {
        note(&format!("… and {more} more like these"));
    }
}

/// The text without anything that a terminal would obey or that would hide or reorder what stands
/// beside it: much of what is shown comes from partners. Line breaks stay.
#[must_use]
pub fn safe_lines(text: &str) -> String {
    escaped(text, |c| c == '\n', in_text)
}

/// The same on one line.
#[must_use]
pub fn safe(text: &str) -> String {
    escaped(text, |_| false, in_text)
}

/// JSON with the same meaning and nothing that a terminal would obey. Outside its texts it has none
/// of these characters, and within them each can be written as an escape.
pub(crate) fn safe_json(json: &str) -> String {
    let in_json = |c: char| {
        let units = c.encode_utf16(&mut [0; 2]).to_vec().into_iter();
        units.map(|unit| format!("\\u{unit:04x}")).collect()
    };
    escaped(json, |c| c == '\n', in_json)
}

fn in_text(c: char) -> String {
    c.escape_default().to_string()
}

fn escaped(text: &str, stays: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if stays(c) || !(c.is_control() || is_invisible(c)) {
            safe.push(c);
        } else {
            safe.push_str(&escape(c));
        }
    }
    safe
}

/// Characters that change the direction or the breaks of a line, and those that show nothing.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
        assert_eq!(
            safe("\u{1b}[2Jgone\r\n\u{9b}31m\u{7f}\0"),
            r"\u{1b}[2Jgone\r\n\u{9b}31m\u{7f}\u{0}"
        );
        assert_eq!(
            safe("a\u{202e}b\u{200b}c\u{2028}"),
            r"a\u{202e}b\u{200b}c\u{2028}"
        );
        assert_eq!(safe("Größe 12 € → 😀"), "Größe 12 € → 😀");
    }

    #[test]
    fn json_says_the_same_in_other_words() {
        let text = "\u{9b}31m\u{202e}\u{e0041}\u{7f}é\n\t\"\\";
        let json = serde_json::to_string_pretty(&[text]).unwrap();
        let safe = safe_json(&json);
        assert_eq!(
            safe,
            "[\n  \"\\u009b31m\\u202e\\udb40\\udc41\\u007fé\\n\\t\\\"\\\\\"\n]"
        );
        assert_eq!(serde_json::from_str::<[String; 1]>(&safe).unwrap(), [text]);
    }

    #[test]
    fn a_report_keeps_its_lines() {
        assert_eq!(safe_lines("a\nb\tc\r\n"), "a\nb\\tc\\r\n");
    }
}
