//! AWS that fails. The sender gets 503 and a time to come again, never an answer that would end
//! the delivery; and never a 2xx for what is not stored.

use e2e::fake_aws::Reply;
use e2e::signature::secret_for;
use e2e::stage::{RECEIVER_PARAMETER, Stage, assert_untold, side_by_side};
use e2e::webhook::Webhook;
use serde_json::{Value, json};

use crate::{RECEIVER, answer, response, stage, stored};

const ID: &str = "msg_1_kasse-nord";

fn unavailable(reason: &str) -> Value {
    let body = json!({"reason": reason, "result": "unavailable"}).to_string();
    let mut response = response(503, &body);
    response["headers"]["retry-after"] = "30".into();
    response
}

fn webhook(secret: &str) -> Webhook {
    Webhook::now(
        secret,
        ID,
        &Webhook::body_of("OrderPaid", r#"{"total":129.90}"#),
    )
}

#[tokio::test]
async fn while_the_event_can_not_be_stored_the_sender_is_to_try_again() {
    let replies = [
        (
            Reply::error(400, "AccessDeniedException"),
            "AccessDeniedException",
        ),
        (
            Reply::error(400, "ResourceNotFoundException"),
            "ResourceNotFoundException",
        ),
        (
            Reply::error(400, "ThrottlingException"),
            "ThrottlingException",
        ),
        (
            Reply::error(500, "InternalServerError"),
            "InternalServerError",
        ),
        (Reply::Cut, "dispatch failure"),
    ];
    side_by_side(replies, |(reply, said)| async move {
        let secret = secret_for("partner");
        let stage = stage(&secret).await;
        stage.aws.always("PutItem", reply);
        let receiver = stage.start(RECEIVER).await;

        let answered = answer(&receiver, &webhook(&secret).event()).await;

        assert_eq!(
            answered,
            unavailable("the event can not be stored"),
            "{said}"
        );
        receiver
            .line_with(&["ERROR", "webhook.unavailable", said])
            .await;
        // Well again.
        stage.aws.always("PutItem", Reply::Usual);
        assert_eq!(answer(&receiver, &webhook(&secret).event()).await, stored());
        assert_untold(&receiver.stop().await, &["129.90}\"", &secret]);
    })
    .await;
}

#[tokio::test]
async fn a_table_that_does_not_answer_costs_six_seconds_and_not_the_senders_patience() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    stage.aws.always("PutItem", Reply::Hang);
    let receiver = stage.start(RECEIVER).await;
    let start = std::time::Instant::now();

    let answered = answer(&receiver, &webhook(&secret).event()).await;

    assert_eq!(answered, unavailable("it took too long"));
    let seconds = start.elapsed().as_secs();
    assert!((6..10).contains(&seconds), "{seconds} s");
}

#[tokio::test]
async fn without_a_usable_secret_the_sender_is_to_try_again() {
    let broken = |value: &'static str| {
        move |stage: &Stage| {
            stage.aws.put_parameter(RECEIVER_PARAMETER, value);
        }
    };
    type Break = Box<dyn Fn(&Stage) + Send>;
    let cases: [(Break, &str); 6] = [
        (
            Box::new(|_| {}),
            "there is no parameter /webhooks-receiver/secret",
        ),
        (Box::new(broken("hunter2-hunter2")), "starts with `whsec_`"),
        (Box::new(broken("whsec_AAAA")), "the key has 3 bytes"),
        (Box::new(broken(" ")), "there is no secret to verify with"),
        (
            Box::new(|stage| {
                let denied = Reply::error(400, "AccessDeniedException");
                stage.aws.always("GetParameter", denied);
            }),
            "AccessDeniedException",
        ),
        (
            Box::new(|stage| stage.aws.always("GetParameter", Reply::Output(json!({})))),
            "the answer has no value",
        ),
    ];
    side_by_side(cases, |(break_it, said)| async move {
        let stage = Stage::for_receiver().await;
        break_it(&stage);
        let receiver = stage.start(RECEIVER).await;

        let event = webhook(&secret_for("partner")).event();
        let answered = answer(&receiver, &event).await;

        assert_eq!(
            answered,
            unavailable("the secret can not be read"),
            "{said}"
        );
        receiver
            .line_with(&["ERROR", "webhook.unavailable", said])
            .await;
        assert_eq!(stage.aws.calls("PutItem").len(), 0);
        assert_untold(&receiver.stop().await, &["hunter2-hunter2"]);
    })
    .await;
}

#[tokio::test]
async fn decryption_is_asked_for() {
    let secret = secret_for("partner");
    let stage = stage(&secret).await;
    let receiver = stage.start(RECEIVER).await;

    assert_eq!(answer(&receiver, &webhook(&secret).event()).await, stored());

    assert_eq!(
        stage.aws.calls("GetParameter"),
        [json!({"Name": RECEIVER_PARAMETER, "WithDecryption": true})]
    );
}
