//! The reasons, as words that stay the same for programs and as sentences for people.

use std::fmt::{self, Display, Formatter};

use super::rewrite::Form;
use crate::verify::TOLERANCE;

/// What is wrong with a request, or with what it is verified with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described by its sentence below")]
pub enum Reason {
    SecretEmpty,
    SecretCiphertext,
    SecretQuoted,
    SecretPrefix,
    SecretAlphabet,
    SecretLength(usize),
    SecretHalves,
    /// The prefix that it has, and the one that its key belongs to.
    SecretKind(&'static str, &'static str),
    SecretAsText,
    SignatureEmpty,
    SignatureScheme,
    SignatureVersion,
    SignatureTruncated,
    SignatureUrlSafe,
    SignatureHex,
    SignatureQuoted,
    SignatureJoined,
    IdEmpty,
    IdDot,
    IdForm,
    IdPrefix,
    IdSwapped,
    TimestampNotANumber,
    TimestampForm,
    TimestampMilliseconds,
    TimestampText,
    /// The second that was signed.
    TimestampOther(u64),
    /// By how many seconds.
    TooOld(u64),
    /// By how many seconds.
    TooNew(u64),
    BodyEmpty,
    BodyNewlineAdded,
    BodyNewlineMissing,
    BodyByteOrderMark,
    BodyLineEndsCrlf,
    BodyLineEndsLf,
    BodyWhiteSpace,
    BodyBase64,
    BodyDoubleEncoded,
    BodyCharset,
    BodyReserialised(Form),
    SignedBodyOnly,
    SignedWithoutId,
    NoMatch,
}

impl Reason {
    /// The word for it, which stays the same.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::SecretEmpty => "secret-empty",
            Self::SecretCiphertext => "secret-ciphertext",
            Self::SecretQuoted => "secret-quoted",
            Self::SecretPrefix => "secret-prefix",
            Self::SecretAlphabet => "secret-alphabet",
            Self::SecretLength(_) => "secret-length",
            Self::SecretHalves => "secret-halves",
            Self::SecretKind(..) => "secret-kind",
            Self::SecretAsText => "secret-as-text",
            Self::SignatureEmpty => "signature-empty",
            Self::SignatureScheme => "signature-scheme",
            Self::SignatureVersion => "signature-version",
            Self::SignatureTruncated => "signature-truncated",
            Self::SignatureUrlSafe => "signature-url-safe",
            Self::SignatureHex => "signature-hex",
            Self::SignatureQuoted => "signature-quoted",
            Self::SignatureJoined => "signature-joined",
            Self::IdEmpty => "id-empty",
            Self::IdDot => "id-dot",
            Self::IdForm => "id-form",
            Self::IdPrefix => "id-prefix",
            Self::IdSwapped => "id-swapped",
            Self::TimestampNotANumber => "timestamp-not-a-number",
            Self::TimestampForm => "timestamp-form",
            Self::TimestampMilliseconds => "timestamp-milliseconds",
            Self::TimestampText => "timestamp-text",
            Self::TimestampOther(_) => "timestamp-other",
            Self::TooOld(_) => "too-old",
            Self::TooNew(_) => "too-new",
            Self::BodyEmpty => "body-empty",
            Self::BodyNewlineAdded => "body-newline-added",
            Self::BodyNewlineMissing => "body-newline-missing",
            Self::BodyByteOrderMark => "body-byte-order-mark",
            Self::BodyLineEndsCrlf => "body-line-ends-crlf",
            Self::BodyLineEndsLf => "body-line-ends-lf",
            Self::BodyWhiteSpace => "body-white-space",
            Self::BodyBase64 => "body-base64",
            Self::BodyDoubleEncoded => "body-double-encoded",
            Self::BodyCharset => "body-charset",
            Self::BodyReserialised(_) => "body-reserialised",
            Self::SignedBodyOnly => "signed-body-only",
            Self::SignedWithoutId => "signed-without-id",
            Self::NoMatch => "no-match",
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tolerance = TOLERANCE.as_secs();
        f.write_str(match self {
            Self::SecretEmpty => "There is no secret to verify with.",
            Self::SecretCiphertext => {
                "The secret looks like a ciphertext: read the SSM parameter with decryption \
                 (`--with-decryption`)."
            }
            Self::SecretQuoted => "The secret has quotes around it: leave them out.",
            Self::SecretPrefix => {
                "The secret is not one as it was handed out: it starts with `whsec_` (shared \
                 secret), `whpk_` (public key) or `whsk_` (private key) and has no white space in \
                 it."
            }
            Self::SecretAlphabet => {
                "After its prefix the secret is not base64 with padding (A-Z a-z 0-9 + / =): it \
                 was cut, or written in another alphabet."
            }
            Self::SecretLength(bytes) => {
                return write!(
                    f,
                    "The key in the secret has {bytes} bytes; a shared secret has 24 to 64, a \
                     public key 32: it was cut, or is none."
                );
            }
            Self::SecretHalves => "The two halves of the private key do not belong together.",
            Self::SecretKind(given, right) => {
                return write!(
                    f,
                    "The secret starts with `{given}` and holds what belongs behind `{right}`: \
                     shared secret, public key or private key were mixed up."
                );
            }
            Self::SecretAsText => {
                "The text of the secret was used as the key: the key is what the base64 after the \
                 prefix stands for, decoded."
            }
            Self::SignatureEmpty => "`webhook-signature` is empty: the header did not arrive.",
            Self::SignatureScheme => {
                "`webhook-signature` and the secret are of different schemes: a shared secret \
                 (`whsec_`) verifies `v1,…`, a public key (`whpk_`) verifies `v1a,…`."
            }
            Self::SignatureVersion => {
                "In `webhook-signature` a signature is `v1,` or `v1a,` and its base64, in just \
                 this form."
            }
            Self::SignatureTruncated => {
                "A signature in `webhook-signature` is cut: with v1 it has 44 characters after \
                 the comma, with v1a 88."
            }
            Self::SignatureUrlSafe => {
                "The signature is in url-safe base64 or without padding; it must be standard \
                 base64 (+ and /, padded with =)."
            }
            Self::SignatureHex => "The signature is in hex; it must be base64.",
            Self::SignatureQuoted => {
                "`webhook-signature` has quotes, brackets or its own name around it: take the \
                 bare value of the header."
            }
            Self::SignatureJoined => {
                "The signatures in `webhook-signature` are joined by commas, tabs or line breaks; \
                 between them stands a space, and a comma only after each `v1` or `v1a`."
            }
            Self::IdEmpty => "`webhook-id` is empty: the header did not arrive.",
            Self::IdDot => {
                "`webhook-id` has a dot in it, and ids never have: was it joined with the \
                 timestamp?"
            }
            Self::IdForm => {
                "`webhook-id` has white space, quotes or its own name around it: take the bare \
                 value of the header."
            }
            Self::IdPrefix => "`webhook-id` lacks its beginning, `msg_`.",
            Self::IdSwapped => "`webhook-id` and `webhook-timestamp` are swapped.",
            Self::TimestampNotANumber => {
                "`webhook-timestamp` is not a whole number of seconds since 1970."
            }
            Self::TimestampForm => {
                "`webhook-timestamp` was written in another way: take the bare value of the \
                 header, digits and nothing else."
            }
            Self::TimestampMilliseconds => {
                "`webhook-timestamp` is in milliseconds or smaller; it is seconds that are signed."
            }
            Self::TimestampText => {
                "`webhook-timestamp` was made a date; it is the number of seconds since 1970 that \
                 is signed."
            }
            Self::TimestampOther(seconds) => {
                return write!(
                    f,
                    "`webhook-timestamp` is not the one that was signed, which is {seconds}: take \
                     it from the header of the same request."
                );
            }
            Self::TooOld(seconds) => {
                return write!(
                    f,
                    "`webhook-timestamp` is {seconds} seconds ago, more than the {tolerance} that \
                     are allowed: this clock is fast, or the request is an old one."
                );
            }
            Self::TooNew(seconds) => {
                return write!(
                    f,
                    "`webhook-timestamp` is {seconds} seconds ahead, more than the {tolerance} \
                     that are allowed: this clock is slow."
                );
            }
            Self::BodyEmpty => {
                "The body is empty: did a framework read it before? Verify the raw body, before \
                 anything else takes it."
            }
            Self::BodyNewlineAdded => "A line break was added at the end of the body.",
            Self::BodyNewlineMissing => "The line break at the end of the body was lost.",
            Self::BodyByteOrderMark => "A byte order mark was put before the body.",
            Self::BodyLineEndsCrlf => "The line breaks in the body were changed from LF to CRLF.",
            Self::BodyLineEndsLf => "The line breaks in the body were changed from CRLF to LF.",
            Self::BodyWhiteSpace => "White space was added around the body.",
            Self::BodyBase64 => {
                "The body is encoded in base64, as API Gateway does: decode it before it is \
                 verified."
            }
            Self::BodyDoubleEncoded => {
                "The body is a JSON string that has the body in it: it was encoded once too often."
            }
            Self::BodyCharset => {
                "The body was read or written in another character set than UTF-8: verify its \
                 bytes, not its text."
            }
            Self::BodyReserialised(form) => {
                return write!(
                    f,
                    "The body was parsed and written anew: what was signed is the same JSON {}. \
                     Verify the raw body, before it is parsed.",
                    form.words()
                );
            }
            Self::SignedBodyOnly => {
                "Only the body was signed; what must be is id, timestamp and body with a dot \
                 between them."
            }
            Self::SignedWithoutId => {
                "Timestamp and body were signed without the id; what must be is id, timestamp and \
                 body with a dot between them."
            }
            Self::NoMatch => {
                "Either the secret is another one, or the body is not what was sent. Compare the \
                 secret with the one that was handed out for this endpoint (was it rotated, is it \
                 that of a test system?), take all three headers from the same request, and \
                 verify the raw bytes of its body, before any framework parses or changes them."
            }
        })
    }
}
