//! Secrets over time, which is an argument here: a rotation costs no webhook, and a stranger's
//! signatures cost SSM next to nothing.

use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use bytes::Bytes;
use e2e::fake_aws::{FakeAws, Reply};
use e2e::signature::secret_for;
use e2e::stage::RECEIVER_PARAMETER;
use e2e::webhook::Webhook;
use receiver::{Keys, Receiver, Request, Store};
use webhooks_core::secret::SigningSecrets;

const START: u64 = 1_796_040_000;

struct Partner {
    aws: FakeAws,
    receiver: Receiver,
    number: std::cell::Cell<u32>,
}

impl Partner {
    async fn with(secrets: &str) -> Self {
        let aws = FakeAws::start().await;
        aws.put_parameter(RECEIVER_PARAMETER, secrets);
        let config = config(&aws);
        let keys = Keys::of_parameter(&config, RECEIVER_PARAMETER.to_owned());
        let keep = Duration::from_secs(60);
        Self {
            receiver: Receiver::new(keys, Store::memory(), keep),
            aws,
            number: std::cell::Cell::new(0),
        }
    }

    /// The status for a new webhook that is signed with this secret and comes after this many seconds.
    async fn status(&self, seconds: u64, secret: &str) -> u16 {
        self.number.set(self.number.get() + 1);
        let id = format!("msg_{}", self.number.get());
        let body = Webhook::body_of("OrderPaid", "{}");
        let webhook = Webhook::at(START + seconds, secret, &id, &body);
        let headers = webhook.headers();
        let header = |name: &str| {
            let header = headers.iter().find(|(other, _)| *other == name);
            header.map(|(_, value)| (*value).to_owned())
        };
        let request = Request::new("POST", header, Bytes::from(body));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(START + seconds);
        self.receiver.handle(&request, now).await.status()
    }

    fn reads(&self) -> usize {
        self.aws.calls("GetParameter").len()
    }

    fn rotate_to(&self, secrets: &str) {
        self.aws.put_parameter(RECEIVER_PARAMETER, secrets);
    }
}

fn config(aws: &FakeAws) -> SdkConfig {
    let credentials = Credentials::new("AKIAIOSFODNN7EXAMPLE", "secret", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(aws.url())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

#[tokio::test]
async fn a_secret_is_kept_for_five_minutes() {
    let secret = secret_for("partner");
    let partner = Partner::with(&secret).await;
    for (seconds, reads) in [(0, 1), (1, 1), (299, 1), (300, 2), (599, 2), (600, 3)] {
        assert_eq!(partner.status(seconds, &secret).await, 202);
        assert_eq!(partner.reads(), reads, "{seconds} s");
    }
}

#[tokio::test]
async fn a_rotation_is_seen_with_the_first_signature_that_does_not_fit() {
    let (old, new) = (secret_for("old"), secret_for("new"));
    let partner = Partner::with(&old).await;
    assert_eq!(partner.status(0, &old).await, 202);
    partner.rotate_to(&format!("{new} {old}"));

    assert_eq!(partner.status(10, &new).await, 202);
    assert_eq!(partner.status(11, &old).await, 202);
    assert_eq!(partner.reads(), 2);

    // Its end too, if no later than the five minutes.
    partner.rotate_to(&new);
    assert_eq!(partner.status(309, &old).await, 202);
    assert_eq!(partner.status(310, &old).await, 401);
    assert_eq!(partner.status(310, &new).await, 202);
}

/// What is kept can not even try the new scheme.
#[tokio::test]
async fn a_change_of_the_scheme_is_seen_too() {
    let seed = "whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=";
    let signing = SigningSecrets::parse(seed).unwrap();
    let public = signing.iter().next().unwrap().public_key().unwrap();
    let secret = secret_for("partner");
    let partner = Partner::with(&public).await;
    assert_eq!(partner.status(0, &secret).await, 401);
    partner.rotate_to(&format!("{secret} {public}"));
    assert_eq!(partner.status(9, &secret).await, 401);
    assert_eq!(partner.status(10, &secret).await, 202);
}

#[tokio::test]
async fn strangers_make_it_look_again_only_every_ten_seconds() {
    let secret = secret_for("partner");
    let partner = Partner::with(&secret).await;
    assert_eq!(partner.status(0, &secret).await, 202);
    for seconds in 0..60 {
        let stranger = secret_for(&seconds.to_string());
        assert_eq!(partner.status(seconds, &stranger).await, 401, "{seconds} s");
    }
    assert_eq!(partner.reads(), 6);
}

#[tokio::test]
async fn while_ssm_can_not_be_asked_a_secret_is_good_for_half_an_hour() {
    let (secret, other) = (secret_for("partner"), secret_for("other"));
    let partner = Partner::with(&secret).await;
    assert_eq!(partner.status(0, &secret).await, 202);
    let denied = Reply::error(400, "AccessDeniedException");
    partner.aws.always("GetParameter", denied);

    assert_eq!(partner.status(300, &secret).await, 202);
    assert_eq!(partner.status(1799, &secret).await, 202);
    // It may be a rotation that can not be seen: not to be refused for good.
    assert_eq!(partner.status(1799, &other).await, 503);
    assert_eq!(partner.status(1800, &secret).await, 503);

    partner.aws.always("GetParameter", Reply::Usual);
    assert_eq!(partner.status(1802, &secret).await, 202);
    assert_eq!(partner.status(1802, &other).await, 401);
}

#[tokio::test]
async fn a_secret_that_was_deleted_or_broken_is_not_used_from_memory() {
    let secret = secret_for("partner");
    let partner = Partner::with(&secret).await;
    assert_eq!(partner.status(0, &secret).await, 202);
    partner.aws.delete_parameter(RECEIVER_PARAMETER);
    assert_eq!(partner.status(299, &secret).await, 202);
    assert_eq!(partner.status(300, &secret).await, 503);
    partner.rotate_to("broken");
    assert_eq!(partner.status(301, &secret).await, 503);
    // A failure is not looked at again within a second.
    partner.rotate_to(&secret);
    assert_eq!(partner.status(301, &secret).await, 503);
    assert_eq!(partner.status(302, &secret).await, 202);
    assert_eq!(partner.reads(), 4);
}

#[tokio::test]
async fn requests_that_come_together_ask_once() {
    let (secret, stranger) = (secret_for("partner"), secret_for("stranger"));
    let partner = Partner::with(&secret).await;
    let three = tokio::join!(
        partner.status(0, &secret),
        partner.status(0, &secret),
        partner.status(0, &stranger),
    );
    assert_eq!(three, (202, 202, 401));
    assert_eq!(partner.reads(), 1);
}

/// As after a correction of the clock.
#[tokio::test]
async fn a_clock_that_was_set_back_does_not_make_a_secret_last() {
    let secret = secret_for("partner");
    let partner = Partner::with(&secret).await;
    assert_eq!(partner.status(1000, &secret).await, 202);
    assert_eq!(partner.status(0, &secret).await, 202);
    assert_eq!(partner.reads(), 2);
}
