use std::time::{Duration, UNIX_EPOCH};

use super::*;

const S: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Seed and public key of RFC 8032 §7.1, test 1.
const SEED: &str = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
const PUBLIC: &str = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

fn whsk(key: &[u8]) -> String {
    format!("whsk_{}", STANDARD.encode(key))
}

fn whsec(key_bytes: usize) -> String {
    format!("whsec_{}", STANDARD.encode(vec![7; key_bytes]))
}

#[test]
fn white_space_around_a_secret_is_no_part_of_it() {
    for value in [
        S.to_owned(),
        format!("{S}\n"),
        format!("{S}\r\n"),
        format!(" \t{S} "),
    ] {
        assert_eq!(
            SigningSecrets::parse(&value).unwrap().0.len(),
            1,
            "{value:?}"
        );
    }
}

#[test]
fn every_wrong_secret_is_refused_with_its_reason() {
    let cut = "whsec_MfKQ9r8GKYqrTwjU\nPD8ILPZIo2LaLaSw";
    for (value, error) in [
        ("", SecretError::Empty),
        (" \n", SecretError::Empty),
        ("whsec_", SecretError::Length(0)),
        ("whsec_AA==", SecretError::Length(1)),
        (whsec(23).as_str(), SecretError::Length(23)),
        (whsec(65).as_str(), SecretError::Length(65)),
        ("whsec_not-base64!", SecretError::Alphabet),
        (
            "whsec_-__--__--__--__--__--__--__--__-",
            SecretError::Alphabet,
        ),
        (S.trim_end_matches('w'), SecretError::Alphabet),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", SecretError::Prefix),
        (
            "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            SecretError::Prefix,
        ),
        (
            "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            SecretError::Ed25519Length(24),
        ),
        ("whsk_", SecretError::Ed25519Length(0)),
        (whsk(&[7; 33]).as_str(), SecretError::Ed25519Length(33)),
        (whsk(&[7; 64]).as_str(), SecretError::Ed25519Halves),
        (PUBLIC, SecretError::PublicKey),
        (
            "AQICAHhwm0YaISJeRtJm5n1G6uqeekXuoXXPe5UFce9Rq8",
            SecretError::Ciphertext,
        ),
        ("hunter2", SecretError::Prefix),
        (cut, SecretError::Length(12)),
    ] {
        assert_eq!(
            SigningSecrets::parse(value).unwrap_err().error,
            error,
            "{value:?}"
        );
    }
    for bytes in [24, 32, 64] {
        assert!(SigningSecrets::parse(&whsec(bytes)).is_ok(), "{bytes}");
    }
}

#[test]
fn one_wrong_secret_among_several_refuses_them_all() {
    let error = SigningSecrets::parse(&format!("{S} whsec_AA==")).unwrap_err();
    assert_eq!(
        error,
        SecretsError {
            number: 2,
            of: 2,
            error: SecretError::Length(1)
        }
    );
    assert_eq!(
        error.to_string(),
        "secret 2 of 2: the signing key has 1 bytes; it must have 24 to 64"
    );
    let error = SigningSecrets::parse("whsec_AA==").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the signing key has 1 bytes; it must have 24 to 64"
    );
}

#[test]
fn a_secret_is_ignored_from_its_end_on() {
    let secrets =
        SigningSecrets::parse(&format!("{} {S};until=2026-12-01T12:00:00Z", whsec(32))).unwrap();
    let end = UNIX_EPOCH + Duration::from_secs(1_796_126_400);
    assert_eq!(secrets.active(end - Duration::from_secs(1)).count(), 2);
    assert_eq!(secrets.active(end).count(), 1);
    let only = SigningSecrets::parse(&format!("{S};until=2026-12-01T13:00:00+01:00")).unwrap();
    assert_eq!(only.active(end - Duration::from_secs(1)).count(), 1);
    assert_eq!(only.active(end).count(), 0);
}

#[test]
fn an_end_that_is_no_time_is_refused() {
    for end in [
        "",
        "until=",
        "until=tomorrow",
        "until=2026-12-01",
        "2026-12-01T12:00:00Z",
    ] {
        assert_eq!(
            SigningSecrets::parse(&format!("{S};{end}"))
                .unwrap_err()
                .error,
            SecretError::Until,
            "{end}"
        );
    }
}

#[test]
fn debug_output_tells_nothing() {
    let secrets = SigningSecrets::parse(S).unwrap();
    assert_eq!(
        format!("{secrets:?}"),
        "SigningSecrets([SigningSecret(redacted)])"
    );
}

#[test]
fn an_ed25519_secret_tells_its_public_key_with_and_without_it() {
    let seed = STANDARD.decode(SEED).unwrap();
    let public = STANDARD.decode(&PUBLIC["whpk_".len()..]).unwrap();
    for key in [seed.clone(), [seed, public].concat()] {
        let secrets = SigningSecrets::parse(&whsk(&key)).unwrap();
        let secret = secrets.iter().next().unwrap();
        assert_eq!(secret.scheme(), Scheme::V1a);
        assert_eq!(secret.public_key().unwrap(), PUBLIC);
    }
    let shared = SigningSecrets::parse(S).unwrap();
    assert_eq!(shared.iter().next().unwrap().public_key(), None);
}

#[test]
fn a_new_secret_is_one_to_sign_with() {
    let key = [9; SEED_BYTES];
    for scheme in Scheme::ALL {
        let secrets = SigningSecrets::parse(&secret_text(scheme, &key)).unwrap();
        assert_eq!(secrets.iter().next().unwrap().scheme(), scheme);
    }
}

#[test]
fn a_rotation_puts_the_new_secret_in_front_and_gives_the_old_ones_an_end() {
    let now = timestamp::parse("2026-11-30T12:00:00Z").unwrap();
    let end = timestamp::parse("2026-12-01T12:00:00Z").unwrap();
    let new = whsec(32);
    assert_eq!(
        rotate(&format!(" {S}\n"), &new, end, now).unwrap(),
        format!("{new} {S};until=2026-12-01T12:00:00.000Z")
    );
    // An end that comes first stays, one that has passed takes its secret along.
    let (other, third) = (whsec(40), whsec(48));
    let value = format!(
        "{S};until=2027-01-01T00:00:00Z {other};until=2026-11-30T13:00:00Z \
         {third};until=2026-11-30T12:00:00Z"
    );
    assert_eq!(
        rotate(&value, &new, end, now).unwrap(),
        format!(
            "{new} {S};until=2026-12-01T12:00:00.000Z \
             {other};until=2026-11-30T13:00:00.000Z"
        )
    );
    // Without an overlap the old ones go at once.
    assert_eq!(rotate(S, &new, now, now).unwrap(), new);
}

#[test]
fn a_value_that_is_wrong_or_becomes_too_long_is_not_rotated() {
    let now = timestamp::parse("2026-11-30T12:00:00Z").unwrap();
    let end = now + Duration::from_secs(60);
    assert_eq!(
        rotate("whsec_AA==", S, end, now),
        Err(RotateError::Value(SecretsError {
            number: 1,
            of: 1,
            error: SecretError::Length(1)
        }))
    );
    let many = vec![S; 80].join(" ");
    // 38 bytes each, `;until=` with a time 31 more, a space before it, and the new one.
    assert_eq!(
        rotate(&many, S, end, now),
        Err(RotateError::TooLong(80 * (38 + 31 + 1) + 38))
    );
}
