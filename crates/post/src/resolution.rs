//! What a name stands for: one question to the system's resolver, and a judgement of every answer.

use std::io;
use std::net::IpAddr;

use webhooks_core::endpoint::{EndpointError, EndpointRules};

/// What the standard library says before what went wrong.
const NOISE: &str = "failed to lookup address information: ";

/// A name could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The resolver said no, or nothing.
    #[error("the host name can not be resolved: {}", without_noise(.0))]
    Failed(#[from] io::Error),
    /// The name exists and has no address.
    #[error("the host name has no address")]
    Empty,
    /// One of its addresses may not be called.
    #[error(transparent)]
    Forbidden(#[from] EndpointError),
}

/// Resolves a name with the resolver of the system, once, and judges every answer. If one of them
/// is not allowed, none is given: a name that mixes public and private addresses is an attack, or
/// as good as one.
///
/// Where the rules are those of production the name is whole: the search domains of the network
/// that we run in never complete it to another one.
///
/// # Errors
/// If there is no address, or one that may not be called.
pub async fn resolve(rules: EndpointRules, name: &str) -> Result<Vec<IpAddr>, ResolveError> {
    let whole;
    let name = if rules.allow_private || name.ends_with('.') {
        name
    } else {
        whole = format!("{name}.");
        &whole
    };
    let answers = tokio::net::lookup_host((name, 0)).await?;
    let addresses: Vec<IpAddr> = answers.map(|answer| answer.ip()).collect();
    judge_answers(rules, &addresses)?;
    Ok(addresses)
}

fn judge_answers(rules: EndpointRules, addresses: &[IpAddr]) -> Result<(), ResolveError> {
    if addresses.is_empty() {
        return Err(ResolveError::Empty);
    }
    for address in addresses {
        rules.judge_address(*address)?;
    }
    Ok(())
}

fn without_noise(error: &io::Error) -> String {
    let text = error.to_string();
    match text.strip_prefix(NOISE) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: EndpointRules = EndpointRules {
        allow_private: false,
    };

    #[test]
    fn one_private_answer_refuses_the_whole_name() {
        let public: IpAddr = "93.184.215.14".parse().unwrap();
        for private in ["10.0.0.5", "::1", "::ffff:169.254.169.254"] {
            let private: IpAddr = private.parse().unwrap();
            let told = PRODUCTION.judge_address(private).unwrap_err().to_string();
            for answers in [[public, private], [private, public]] {
                let error = judge_answers(PRODUCTION, &answers).unwrap_err();
                assert!(matches!(error, ResolveError::Forbidden(_)));
                assert_eq!(error.to_string(), told);
            }
        }
        assert!(judge_answers(PRODUCTION, &[public]).is_ok());
    }

    #[test]
    fn a_name_without_an_address_is_a_failure_of_the_name_and_no_blocked_address() {
        let error = judge_answers(PRODUCTION, &[]).unwrap_err();
        assert!(matches!(error, ResolveError::Empty));
    }

    #[test]
    fn a_failure_is_told_without_what_goes_without_saying() {
        for (from_system, told) in [
            (
                "failed to lookup address information: Name or service not known",
                "the host name can not be resolved: Name or service not known",
            ),
            (
                "something else",
                "the host name can not be resolved: something else",
            ),
        ] {
            let error = ResolveError::from(io::Error::other(from_system));
            assert_eq!(error.to_string(), told);
        }
    }
}
