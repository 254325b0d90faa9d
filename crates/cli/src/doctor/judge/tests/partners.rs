//! Rows, urls and secrets.

use super::*;

#[test]
fn a_row_by_which_nothing_is_sent_is_a_problem() {
    let s = |text: &str| AttributeValue::S(text.to_owned());
    assert_eq!(
        with_row(|row| {
            row.insert("enabled".into(), s("true"));
        }),
        problem(
            "subscriptions: kasse, OrderPaid: the row is broken, nothing is sent: `enabled` is not \
             a boolean (BOOL)",
            "`webhooks subscribe kasse --event OrderPaid --url URL`"
        )
    );
    let change = "`webhooks subscribe kasse --event OrderPaid --url URL` changes it";
    assert_eq!(
        with_row(|row| {
            row.insert("url".into(), s("http://k.example/?token=hidden"));
        }),
        problem(
            "subscriptions: kasse, OrderPaid: its url is not allowed, nothing is sent: the url's \
             scheme is `http`, only https is allowed",
            change
        )
    );
    let resolved = |resolution: Resolution| {
        wrong(|findings| findings.hosts = BTreeMap::from([("k.example".into(), resolution)]))
    };
    assert_eq!(
        resolved(Resolution::Forbidden("10.0.0.1 is private".into())),
        problem(
            "subscriptions: kasse, OrderPaid: its url is not allowed, nothing is sent: k.example: \
             10.0.0.1 is private",
            change
        )
    );
    assert_eq!(
        resolved(Resolution::Failed("no such host".into())),
        warning(
            "subscriptions: kasse, OrderPaid: k.example can not be resolved from here: no such host",
            &format!("ask the partner; {change}")
        )
    );
    assert_eq!(wrong(|findings| findings.hosts.clear()), []);
}

#[test]
fn what_is_odd_about_a_row_is_told() {
    let s = |text: &str| AttributeValue::S(text.to_owned());
    assert_eq!(
        with_row(|row| {
            let headers = Item::from([("Host".to_owned(), s("x"))]);
            row.insert("headers".into(), AttributeValue::M(headers));
        }),
        warning(
            "subscriptions: kasse, OrderPaid: the header `Host` is not sent, it is not a \
             subscription's to set",
            "take it out of the row's `headers`"
        )
    );
    assert_eq!(
        with_row(|row| {
            row.insert("eventType".into(), s("OrderLost"));
        }),
        warning(
            "subscriptions: kasse, OrderLost: the rule lets no such event through",
            "add the type to the parameter EventTypes and deploy again"
        )
    );
    assert_eq!(
        with_row(|row| {
            row.insert("enabled".into(), AttributeValue::Bool(false));
            row.insert("disabledReason".into(), s("the endpoint answered 410 Gone"));
            row.insert("disabledAt".into(), s("2026-11-29T12:00:00.000Z"));
        }),
        [(
            Level::Info,
            "subscriptions: kasse, OrderPaid: disabled since 2026-11-29T12:00:00.000Z: the \
             endpoint answered 410 Gone"
                .to_owned(),
            "`webhooks enable kasse --event OrderPaid` when it is wanted again".to_owned()
        )]
    );
    assert_eq!(
        wrong(|findings| findings.rows = Ok(Vec::new())),
        [(
            Level::Info,
            "subscriptions: nobody is subscribed yet".to_owned(),
            "`webhooks subscribe SUBSCRIBER --event TYPE --url URL`".to_owned()
        )]
    );
}

#[test]
fn a_secret_that_does_not_sign_is_a_problem_and_one_that_soon_will_not_a_warning() {
    let name = "/webhooks/kasse/signing-secret";
    let rotate = "`webhooks secret rotate kasse`, and hand the new one out";
    assert_eq!(
        wrong(|findings| findings.secrets = BTreeMap::from([(kasse(), Ok(None))])),
        problem(
            &format!("secrets: kasse: there is no parameter {name}, nothing is sent"),
            "`webhooks secret new kasse`, and hand it out"
        )
    );
    assert_eq!(
        with_secret("whsec_AA=="),
        problem(
            &format!(
                "secrets: kasse: {name} can not be signed with, nothing is sent: the signing key \
                 has 1 bytes; it must have 24 to 64"
            ),
            "put the right value there, as a SecureString"
        )
    );
    assert_eq!(
        with_secret(&format!("{SECRET};until=2026-11-30T12:00:00Z")),
        problem(
            &format!("secrets: kasse: all secrets in {name} have ended, nothing is sent"),
            rotate
        )
    );
    let ends = |end: &str| with_secret(&format!("{SECRET};until={end}"));
    assert_eq!(ends("2026-12-30T12:00:00Z"), []);
    assert_eq!(
        ends("2026-12-30T11:59:59Z"),
        warning(
            "secrets: kasse: the last secret ends at 2026-12-30T11:59:59.000Z, without a successor",
            rotate
        )
    );
    assert_eq!(
        with_secret(&format!("{SECRET} {SECRET};until=2026-12-01T12:00:00Z")),
        []
    );
}

#[test]
fn a_secret_that_is_not_encrypted_is_warned_of() {
    let plain = |key: Option<&str>| {
        wrong(|findings| {
            let parameter = Parameter {
                is_secure: false,
                ..parameter(SECRET)
            };
            findings.secrets = BTreeMap::from([(kasse(), Ok(Some(parameter)))]);
            let key = key.map(|key| ("SecretsKmsKeyArn".to_owned(), key.to_owned()));
            findings.stack.parameters.extend(key);
        })
    };
    let name = "/webhooks/kasse/signing-secret";
    for (key, option) in [(None, ""), (Some("arn:k"), " --key-id arn:k")] {
        assert_eq!(
            plain(key),
            warning(
                &format!(
                    "secrets: kasse: {name} is not a SecureString: it is not encrypted, and shown \
                     to whoever may read parameters"
                ),
                &format!(
                    "keep its value, then `aws ssm delete-parameter --name {name}` and at once \
                     `aws ssm put-parameter --name {name} --type SecureString{option} --value \
                     VALUE`; then `webhooks secret rotate kasse`, as others may have read it"
                )
            )
        );
    }
}

#[test]
fn a_row_that_no_verb_can_name_is_deleted_by_its_key() {
    let s = |text: &str| AttributeValue::S(text.to_owned());
    assert_eq!(
        with_row(|row| {
            row.insert("subscriberId".into(), s("kasse d'or"));
        }),
        problem(
            "subscriptions: kasse d'or, OrderPaid: the row is broken, nothing is sent: \
             `subscriberId`: a subscriberId is 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`",
            r#"no verb can name it; delete it by `aws dynamodb delete-item --table-name subs --key '{"eventType":{"S":"OrderPaid"},"subscriberId":{"S":"kasse d'\''or"}}'`"#
        )
    );
}

#[test]
fn headers_that_are_broken_fail_webhooks_and_are_mended_by_their_option() {
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let broken = |enabled| {
        with_row(|row| {
            row.insert("headers".into(), s("x: y"));
            row.insert("enabled".into(), AttributeValue::Bool(enabled));
        })
    };
    let mend = "`webhooks subscribe kasse --event OrderPaid --url URL` with --no-headers, or with \
                all headers that it is to have by --header-file";
    assert_eq!(
        broken(true),
        problem(
            "subscriptions: kasse, OrderPaid: the row is broken, webhooks are made and fail: \
             `headers`: not a map (M)",
            mend
        )
    );
    assert_eq!(
        broken(false),
        warning(
            "subscriptions: kasse, OrderPaid: disabled, and the row is broken: `headers`: not a \
             map (M)",
            mend
        )
    );
}
