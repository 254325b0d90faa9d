//! What a `webhook-signature` header may have been before somebody changed it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::Reason;
use crate::secret::Scheme;

/// A signature as the header has it, or as it may have had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// How the header differs from what it must be.
    pub flaw: Option<Reason>,
    /// `None` if the header does not say.
    pub scheme: Option<Scheme>,
    /// The signature itself.
    pub bytes: Vec<u8>,
}

impl Candidate {
    /// Whether it has as many bytes as a signature of its scheme.
    pub(super) fn is_whole(&self) -> bool {
        match self.scheme {
            Some(scheme) => self.bytes.len() == bytes_of(scheme),
            None => Scheme::ALL.map(bytes_of).contains(&self.bytes.len()),
        }
    }
}

/// How long a signature is.
pub(super) fn bytes_of(scheme: Scheme) -> usize {
    match scheme {
        Scheme::V1 => 32,
        Scheme::V1a => 64,
    }
}

/// The signatures of a header, those that are as they must be first.
pub(super) fn candidates(header: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    for part in header.trim().split(' ') {
        found.extend(read(part, None));
    }
    let is_other_space = |c: char| c.is_ascii_whitespace() && c != ' ';
    if header.trim().contains(is_other_space) {
        for part in header.split_ascii_whitespace() {
            found.extend(read(part, Some(Reason::SignatureJoined)));
        }
    }
    let bare = bare(header);
    if bare != header {
        for part in bare.split_ascii_whitespace() {
            found.extend(read(part, Some(Reason::SignatureQuoted)));
        }
    }
    let parts: Vec<&str> = bare
        .split([',', ' ', ';'])
        .filter(|part| !part.is_empty())
        .collect();
    for (version, encoded) in parts.iter().zip(parts.iter().skip(1)) {
        if let Some(scheme) = scheme(version) {
            found.extend(decoded(
                encoded,
                Some(scheme),
                Some(Reason::SignatureJoined),
            ));
        }
    }
    found.sort_by_key(|candidate| candidate.flaw.is_some());
    found.dedup_by(|second, first| second.bytes == first.bytes && second.scheme == first.scheme);
    found
}

/// Without quotes, and without the header's name, which is easily pasted with it.
fn bare(header: &str) -> &str {
    let header = header.trim();
    let header = match header.split_once(':') {
        Some((name, value)) if name.eq_ignore_ascii_case(crate::signature::SIGNATURE_HEADER) => {
            value.trim()
        }
        Some(_) | None => header,
    };
    header.trim_matches(['"', '\'', '[', ']'])
}

fn scheme(version: &str) -> Option<Scheme> {
    Scheme::ALL
        .into_iter()
        .find(|scheme| scheme.name().eq_ignore_ascii_case(version))
}

fn read(part: &str, flaw: Option<Reason>) -> Vec<Candidate> {
    match part.split_once(',') {
        Some((version, encoded)) => match scheme(version) {
            Some(known) if known.name() == version => decoded(encoded, Some(known), flaw),
            Some(known) => decoded(encoded, Some(known), Some(Reason::SignatureVersion)),
            // A later version of the standard, which is not verified here.
            None => Vec::new(),
        },
        None => {
            let rest = Scheme::ALL.into_iter().find_map(|scheme| {
                let rest = part.strip_prefix(scheme.name())?;
                Some((rest.strip_prefix(['=', ':'])?, Some(scheme)))
            });
            let (encoded, scheme) = rest.unwrap_or((part, None));
            decoded(encoded, scheme, Some(Reason::SignatureVersion))
        }
    }
}

/// What a text may stand for.
fn decoded(encoded: &str, scheme: Option<Scheme>, flaw: Option<Reason>) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut add = |flaw: Option<Reason>, bytes: Vec<u8>| {
        if !bytes.is_empty() {
            found.push(Candidate {
                flaw,
                scheme,
                bytes,
            });
        }
    };
    if let Some(bytes) = hex(encoded) {
        add(Some(Reason::SignatureHex), bytes);
    }
    if let Ok(bytes) = STANDARD.decode(encoded) {
        let cut = scheme.is_some_and(|scheme| bytes.len() < bytes_of(scheme));
        add(flaw.or(cut.then_some(Reason::SignatureTruncated)), bytes);
    } else if let Ok(bytes) = URL_SAFE.decode(encoded).or_else(|_| {
        let has_url_safe = encoded.contains(['-', '_']);
        if has_url_safe {
            URL_SAFE_NO_PAD.decode(encoded)
        } else {
            STANDARD.decode(encoded)
        }
    }) {
        add(Some(Reason::SignatureUrlSafe), bytes);
    } else {
        // Cut anywhere: whole groups of four characters can be read, and so can most of the rest.
        let text = encoded.trim_end_matches('=');
        let whole = match text.len() % 4 {
            1 => text.get(..text.len() - 1),
            _ => Some(text),
        };
        let whole = whole.unwrap_or_default();
        let bytes = STANDARD_NO_PAD.decode(whole).ok().or_else(|| {
            let groups = whole.len() / 4 * 4;
            STANDARD_NO_PAD.decode(whole.get(..groups)?).ok()
        });
        let bytes = bytes.unwrap_or_default();
        let only_unpadded = Scheme::ALL.map(bytes_of).contains(&bytes.len());
        let flaw = if only_unpadded {
            Reason::SignatureUrlSafe
        } else {
            Reason::SignatureTruncated
        };
        add(Some(flaw), bytes);
    }
    found
}

pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    let long_enough = text.len() >= 32 && text.len().is_multiple_of(2);
    if !long_enough || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
