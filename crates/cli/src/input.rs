//! What is read from files and from standard input.

use std::fs;
use std::io::{self, Read as _};

use crate::error::Error;

/// The bytes of a file; `-` is standard input. `what` says what the file is, such as `the body`.
///
/// # Errors
/// If it can not be read.
pub fn read(path: &str, what: &str) -> Result<Vec<u8>, Error> {
    let read = if path == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    read.map_err(|error| Error::Usage(format!("{what} can not be read from `{path}`: {error}")))
}

/// The same as text.
///
/// # Errors
/// If it can not be read, or is not UTF-8.
pub fn read_text(path: &str, what: &str) -> Result<String, Error> {
    String::from_utf8(read(path, what)?)
        .map_err(|_| Error::Usage(format!("{what} in `{path}` is not UTF-8 text")))
}
