//! What a body may have been before somebody changed it on its way to the verifier.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Reason;
use super::rewrite::{Form, Json};

/// JSON above this size is not written in other forms: each is as long again.
const REWRITTEN_MAX_BYTES: usize = 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bodies that the given one may have been made from, each with what was done to it, the most
/// likely first.
pub(super) fn candidates(body: &[u8]) -> Vec<(Reason, Vec<u8>)> {
    let mut found: Vec<(Reason, Vec<u8>)> = Vec::new();
    let mut add = |reason: Reason, candidate: Vec<u8>| {
        if candidate != body {
            found.push((reason, candidate));
        }
    };
    for end in [&b"\r\n"[..], b"\n"] {
        if let Some(without) = body.strip_suffix(end) {
            add(Reason::BodyNewlineAdded, without.to_vec());
        }
        add(Reason::BodyNewlineMissing, [body, end].concat());
    }
    if let Some(without) = body.strip_prefix(BYTE_ORDER_MARK) {
        add(Reason::BodyByteOrderMark, without.to_vec());
    }
    let unix = replaced(body, b"\r\n", b"\n");
    add(Reason::BodyLineEndsCrlf, unix.clone());
    add(Reason::BodyLineEndsLf, replaced(&unix, b"\n", b"\r\n"));
    add(Reason::BodyWhiteSpace, body.trim_ascii().to_vec());
    if let Ok(bytes) = STANDARD.decode(body.trim_ascii()) {
        add(Reason::BodyBase64, bytes);
    }
    match str::from_utf8(body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body)) {
        Ok(text) => {
            if let Ok(inner) = serde_json::from_str::<String>(text) {
                add(Reason::BodyDoubleEncoded, inner.into_bytes());
            }
            // UTF-8 that was read as Latin-1 and written as UTF-8 again.
            let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
            if let Ok(bytes) = bytes {
                add(Reason::BodyCharset, bytes);
            }
            if text.len() <= REWRITTEN_MAX_BYTES
                && let Some(json) = Json::parse(text)
            {
                for form in Form::all() {
                    if let Some(text) = json.write(form) {
                        add(Reason::BodyReserialised(form), text.into_bytes());
                    }
                }
            }
        }
        // Latin-1.
        Err(_) => add(
            Reason::BodyCharset,
            body.iter()
                .map(|byte| char::from(*byte))
                .collect::<String>()
                .into_bytes(),
        ),
    }
    found
}

fn replaced(body: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    out
}
