//! What is read from files and from standard input.

use std::fs::{self, File};
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

/// The same as [`read`], of a file that may have this many bytes and no more.
///
/// # Errors
/// If it can not be read, or is longer.
pub fn read_within(path: &str, what: &str, max_bytes: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = if path == "-" {
        let mut input = io::stdin().lock().take(max_bytes + 1);
        input.read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes))
    };
    let count = read
        .map_err(|error| Error::Usage(format!("{what} can not be read from `{path}`: {error}")))?;
    if u64::try_from(count).is_ok_and(|count| count <= max_bytes) {
        return Ok(bytes);
    }
    let message = format!("{what} in `{path}` is longer than the {max_bytes} bytes it may have");
    Err(Error::Usage(message))
}
