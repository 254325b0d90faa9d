//! What an exchange without an answer means: the outcome, and the words for it. Both are found by
//! the types of the errors, never by their texts.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::time::{Duration, UNIX_EPOCH};

use hyper_util::client::legacy::Error as ClientError;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage};
use webhooks_core::outcome::{Failure, Outcome};
use webhooks_core::timestamp;

use crate::connection::{ConnectError, ConnectStep};
use crate::counted::AnswerTooLong;
use crate::resolution::ResolveError;

/// The longest error text that is kept, in characters.
const ERROR_MAX_CHARS: usize = 300;

/// How many of the names in a certificate are told, of which there may be a hundred.
const NAMES_TOLD: usize = 3;

/// What an exchange without an answer means.
pub(crate) fn failed(error: &ClientError) -> (Outcome, String) {
    let connect = causes(error).find_map(|cause| cause.downcast_ref::<ConnectError>());
    let (failure, text) = match connect {
        Some(
            ConnectError::Forbidden(rule) | ConnectError::Resolve(ResolveError::Forbidden(rule)),
        ) => return (Outcome::Blocked(rule.clone()), rule.to_string()),
        Some(error @ (ConnectError::Name | ConnectError::Resolve(_))) => {
            (Failure::Dns, error.to_string())
        }
        Some(ConnectError::Tcp(error)) => (Failure::Connect, unconnected(&**error)),
        Some(ConnectError::Tls(error)) => (Failure::Tls, handshake_failed(error)),
        Some(error @ ConnectError::TimedOut { step, .. }) => {
            let failure = match step {
                ConnectStep::Resolve => Failure::Dns,
                ConnectStep::Tcp => Failure::Connect,
                ConnectStep::Tls => Failure::Tls,
            };
            (failure, error.to_string())
        }
        None => unanswered(error),
    };
    (Outcome::without_answer(failure), printable(&text))
}

/// A text that a terminal can be shown: names in certificates are written by others.
fn printable(text: &str) -> String {
    let shown = |char: char| {
        if char.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        }
    };
    text.chars().take(ERROR_MAX_CHARS).map(shown).collect()
}

/// The connection was there.
fn unanswered(error: &ClientError) -> (Failure, String) {
    for cause in causes(error) {
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return (Failure::Tls, tls(error));
        }
        if cause.is::<AnswerTooLong>() {
            return (Failure::Protocol, cause.to_string());
        }
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            if error.is_parse() {
                return (
                    Failure::Protocol,
                    format!("the answer is not HTTP: {error}"),
                );
            }
            if error.is_incomplete_message() {
                return (Failure::Connection, CLOSED_BEFORE_ANSWER.to_owned());
            }
        }
        if let Some(error) = cause.downcast_ref::<io::Error>()
            && let Some(text) = match error.kind() {
                ErrorKind::ConnectionReset => {
                    Some("the server reset the connection before it answered")
                }
                ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => Some(CLOSED_BEFORE_ANSWER),
                _ => None,
            }
        {
            return (Failure::Connection, text.to_owned());
        }
    }
    (
        Failure::Connection,
        format!("the connection broke before an answer: {}", all(error)),
    )
}

const CLOSED_BEFORE_ANSWER: &str = "the server closed the connection before it answered";

fn unconnected(error: &(dyn StdError + 'static)) -> String {
    match kind_of(error) {
        Some(ErrorKind::ConnectionRefused) => "the server refuses connections".to_owned(),
        Some(ErrorKind::ConnectionReset) => "the server reset the connection".to_owned(),
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => {
            "there is no way to the server's address".to_owned()
        }
        _ => format!("there is no connection to the server: {}", all(error)),
    }
}

fn handshake_failed(error: &io::Error) -> String {
    match causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        Some(error) => tls(error),
        None => match error.kind() {
            ErrorKind::UnexpectedEof => {
                "the server closed the connection during the TLS handshake".to_owned()
            }
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                "the server reset the connection during the TLS handshake".to_owned()
            }
            _ => format!("the TLS handshake failed: {error}"),
        },
    }
}

fn tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate(error),
        rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)
        | rustls::Error::PeerIncompatible(
            rustls::PeerIncompatible::ServerDoesNotSupportTls12Or13
            | rustls::PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the server speaks neither TLS 1.2 nor TLS 1.3".to_owned(),
        rustls::Error::AlertReceived(AlertDescription::UnrecognisedName) => {
            "the server has no certificate for this name".to_owned()
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a client certificate, which we do not have".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the server refused the TLS handshake: {alert:?}")
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS on this port".to_owned()
        }
        rustls::Error::NoCertificatesPresented => "the server sent no certificate".to_owned(),
        other => format!("the TLS handshake failed: {other}"),
    }
}

fn certificate(error: &CertificateError) -> String {
    // A path is judged as a whole, and the error does not tell where in it the fault is.
    const ONE: &str = "the certificate or one above it";
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("{ONE} has expired ({})", time(*not_after))
        }
        CertificateError::Expired => format!("{ONE} has expired"),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("{ONE} is not valid yet ({})", time(*not_before))
        }
        CertificateError::NotValidYet => format!("{ONE} is not valid yet"),
        CertificateError::UnknownIssuer => {
            "the certificate is not signed by a known authority, or the server leaves out the \
             certificates in between"
                .to_owned()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = expected.to_str();
            match names(presented) {
                Some(names) => format!("the certificate is for {names}, not for {expected}"),
                None => format!("the certificate is for no name, so not for {expected}"),
            }
        }
        CertificateError::NotValidForName => "the certificate is for another name".to_owned(),
        CertificateError::Revoked => "the certificate was revoked".to_owned(),
        CertificateError::BadSignature => {
            "the certificate is not signed by the authority that it names".to_owned()
        }
        CertificateError::BadEncoding => "the certificate can not be read".to_owned(),
        other => format!("the certificate is not accepted: {other}"),
    }
}

/// The names in a certificate, which come as `DnsName("…")` and the like.
fn names(presented: &[String]) -> Option<String> {
    let mut told: Vec<&str> = presented
        .iter()
        .take(NAMES_TOLD)
        .map(|name| {
            let inner = name
                .split_once('(')
                .and_then(|(_, rest)| rest.strip_suffix(')'));
            inner.unwrap_or(name).trim_matches('"')
        })
        .collect();
    let more;
    if presented.len() > NAMES_TOLD {
        more = format!("{} more", presented.len() - NAMES_TOLD);
        told.push(&more);
    }
    let (last, others) = told.split_last()?;
    Some(match others {
        [] => (*last).to_owned(),
        others => format!("{} and {last}", others.join(", ")),
    })
}

fn time(time: UnixTime) -> String {
    timestamp::format(UNIX_EPOCH + Duration::from_secs(time.as_secs()))
}

/// All texts of an error and its causes, each once.
fn all(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let words = cause.to_string();
        if !text.contains(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
    }
    text
}

/// The kind of the system's error among the causes of an error.
pub(crate) fn kind_of(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    causes(error).find_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()))
}

/// An error and its causes.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| {
        inner(error).or_else(|| error.source())
    })
}

/// The error inside an `io::Error`, which its `source()` passes over.
fn inner<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    Some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_a_certificate_are_told_as_they_are_written() {
        for (presented, told) in [
            (&[][..], None),
            (&["DnsName(\"other.example\")"], Some("other.example")),
            (
                &["DnsName(\"a.example\")", "IpAddress(192.0.2.1)"],
                Some("a.example and 192.0.2.1"),
            ),
            (
                &[
                    "DnsName(\"a.example\")",
                    "DnsName(\"*.b.example\")",
                    "DirectoryName",
                    "DnsName(\"d.example\")",
                    "DnsName(\"e.example\")",
                ],
                Some("a.example, *.b.example, DirectoryName and 2 more"),
            ),
        ] {
            let presented: Vec<String> = presented.iter().map(ToString::to_string).collect();
            assert_eq!(names(&presented).as_deref(), told);
        }
    }

    #[test]
    fn a_terminal_can_be_shown_every_text() {
        assert_eq!(
            printable("for \u{1b}[2Jother.example\r\n"),
            "for \u{fffd}[2Jother.example\u{fffd}\u{fffd}"
        );
        assert_eq!(printable(&"é".repeat(400)), "é".repeat(300));
    }

    #[test]
    fn what_a_tls_error_means_is_told_in_words() {
        use rustls::Error::{AlertReceived, InvalidCertificate, NoCertificatesPresented};
        for (error, told) in [
            (
                AlertReceived(AlertDescription::HandshakeFailure),
                "the server refused the TLS handshake: HandshakeFailure",
            ),
            (
                AlertReceived(AlertDescription::UnrecognisedName),
                "the server has no certificate for this name",
            ),
            (
                AlertReceived(AlertDescription::CertificateRequired),
                "the server asks for a client certificate, which we do not have",
            ),
            (NoCertificatesPresented, "the server sent no certificate"),
            (
                InvalidCertificate(CertificateError::Expired),
                "the certificate or one above it has expired",
            ),
            (
                InvalidCertificate(CertificateError::BadSignature),
                "the certificate is not signed by the authority that it names",
            ),
            (
                InvalidCertificate(CertificateError::InvalidPurpose),
                "the certificate is not accepted: InvalidPurpose",
            ),
        ] {
            assert_eq!(tls(&error), told);
        }
    }
}
