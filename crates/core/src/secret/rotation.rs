//! A new secret in front of those that are there.

use std::time::SystemTime;

use super::{SecretsError, SigningSecrets};
use crate::timestamp;

/// How much a standard SSM parameter can hold, in bytes.
pub const VALUE_MAX_BYTES: usize = 4096;

/// Why a value can not be rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RotateError {
    /// What is there can not be signed with.
    #[error(transparent)]
    Value(#[from] SecretsError),
    /// With the new secret the value would be longer than a parameter may be.
    #[error(
        "with one more secret the value has {0} bytes, and a parameter holds {VALUE_MAX_BYTES}: too many secrets are still active"
    )]
    TooLong(usize),
}

/// A parameter's value with `new`, a secret, in front. Those that are active go on signing until
/// `end`, or until their own end if that comes first; those that have ended are left out.
///
/// # Errors
/// If the value is not right as it is, or becomes too long.
pub fn rotate(
    value: &str,
    new: &str,
    end: SystemTime,
    now: SystemTime,
) -> Result<String, RotateError> {
    let secrets = SigningSecrets::parse(value)?;
    let mut rotated = new.to_owned();
    for (text, secret) in value.split_whitespace().zip(secrets.iter()) {
        let end = secret.until.map_or(end, |until| until.min(end));
        if secret.is_active(now) && end > now {
            let bare = text.split(';').next().unwrap_or(text);
            rotated.push_str(&format!(" {bare};until={}", timestamp::format(end)));
        }
    }
    if rotated.len() > VALUE_MAX_BYTES {
        return Err(RotateError::TooLong(rotated.len()));
    }
    Ok(rotated)
}
