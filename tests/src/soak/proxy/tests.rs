//! The proxy in front of an AWS that takes everything.

use super::*;
use crate::receiver::{Answer, Receiver};

const TWO: &str =
    r#"{"Entries":[{"Id":"0","VisibilityTimeout":9},{"Id":"1","VisibilityTimeout":9}]}"#;
const TAKEN: &str = r#"{"Successful":[{"Id":"1"}]}"#;

/// What AWS gets of a call of an operation that fails like that, and what the function gets back.
async fn call(operation: &str, fault: Fault) -> (Vec<String>, String) {
    let aws = Receiver::always(Answer::with(200, &[], TAKEN.as_bytes()).then_close()).await;
    let proxy = Proxy::to(aws.address(), vec![window("SendMessageBatch", fault, 1)]).await;
    proxy.start(Instant::now());
    let answer = ask(&proxy, &format!("AmazonSQS.{operation}"), TWO).await;
    let came = aws.requests();
    let came = came.iter().map(|request| request.text().to_owned());
    (came.collect(), answer)
}

/// A window that is open for as long as a test runs.
fn window(operation: &str, fault: Fault, every: u64) -> Window {
    Window {
        from: 0,
        to: 60_000,
        operation: operation.to_owned(),
        fault,
        every,
        only: None,
    }
}

/// Makes a call, always of the same invocation, and gives the answer.
async fn ask(proxy: &Proxy, target: &str, body: &str) -> String {
    let mut function = TcpStream::connect(proxy.address).await.unwrap();
    let call = format!(
        "POST / HTTP/1.1\r\nhost: aws\r\nx-amz-target: {target}\r\namz-sdk-invocation-id: i-1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    function.write_all(call.as_bytes()).await.unwrap();
    let mut answer = String::new();
    function.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_further_try_that_is_answered_makes_up_for_the_one_that_failed() {
    let aws = Receiver::always(Answer::with(200, &[], b"{}").then_close()).await;
    // Only the first and the third.
    let proxy = Proxy::to(aws.address(), vec![window("BatchGetItem", Fault::Error, 2)]).await;
    proxy.start(Instant::now());
    let answered_later = async || {
        ask(&proxy, "DynamoDB.BatchGetItem", "{}").await;
        let seen = proxy.shared.seen.lock().unwrap();
        let calls = seen.failed_calls.iter();
        calls.map(|call| call.answered_later).collect::<Vec<_>>()
    };
    assert_eq!(answered_later().await, [false]);
    assert_eq!(answered_later().await, [true]);
    assert_eq!(answered_later().await, [true, false]);
    assert_eq!(proxy.met(), [3]);
}

#[tokio::test]
async fn a_job_tells_when_its_event_was_even_if_it_is_not_sent() {
    let aws = Receiver::always(Answer::status(200)).await;
    let proxy = Proxy::to(
        aws.address(),
        vec![window("SendMessageBatch", Fault::Error, 1)],
    )
    .await;
    proxy.start(Instant::now());
    assert_eq!(proxy.occurred_at("1"), None);
    let job = json!({"webhookId": "msg_1_a", "eventId": "1", "occurredAt": "noon"}).to_string();
    let batch = json!({"Entries": [{"Id": "0", "MessageBody": job}]}).to_string();
    ask(&proxy, "AmazonSQS.SendMessageBatch", &batch).await;
    assert_eq!(proxy.occurred_at("1").as_deref(), Some("noon"));
    assert_eq!(
        proxy.take_seen().jobs,
        BTreeSet::from(["msg_1_a".to_owned()])
    );
    assert_eq!(aws.requests().len(), 0);
}

#[tokio::test]
async fn what_is_done_by_half_is_known_by_half() {
    let aws = Receiver::always(Answer::with(200, &[], b"{}").then_close()).await;
    let proxy = Proxy::to(
        aws.address(),
        vec![window("BatchWriteItem", Fault::Partial, 1)],
    )
    .await;
    proxy.start(Instant::now());
    let put = |id: &str| json!({"PutRequest": {"Item": {"webhookId": {"S": id}, "state": {"S": "delivered"}}}});
    let batch = json!({"RequestItems": {"records": [put("msg_1_a"), put("msg_1_b")]}});
    let answer = ask(&proxy, "DynamoDB.BatchWriteItem", &batch.to_string()).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body["UnprocessedItems"],
        json!({"records": [put("msg_1_a")]})
    );
    let came: Value = serde_json::from_str(aws.requests()[0].text()).unwrap();
    assert_eq!(came["RequestItems"], json!({"records": [put("msg_1_b")]}));
    let known = proxy.take_seen().known_delivered;
    assert_eq!(known.into_keys().collect::<Vec<_>>(), ["msg_1_b"]);
}

#[tokio::test]
async fn what_is_not_planned_to_fail_goes_through_as_it_is() {
    let (came, answer) = call("ReceiveMessage", Fault::Error).await;
    assert_eq!(came, [TWO]);
    assert!(answer.ends_with(TAKEN), "{answer}");
}

#[tokio::test]
async fn a_call_that_is_refused_is_not_done_and_one_that_is_cut_is() {
    let (came, answer) = call("SendMessageBatch", Fault::Error).await;
    assert_eq!(came, [] as [&str; 0]);
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    let (came, answer) = call("SendMessageBatch", Fault::Cut).await;
    assert_eq!(came, [TWO]);
    assert_eq!(answer, "");
}

#[tokio::test]
async fn of_a_call_that_is_done_by_half_the_rest_is_told_to_have_failed() {
    let (came, answer) = call("SendMessageBatch", Fault::Partial).await;
    assert_eq!(came, [r#"{"Entries":[{"Id":"1","VisibilityTimeout":9}]}"#]);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["Successful"], json!([{"Id": "1"}]));
    assert_eq!(body["Failed"][0]["Id"], "0");
    assert_eq!(body["Failed"][0]["SenderFault"], false);
}

#[tokio::test]
async fn a_function_that_hangs_up_before_the_answer_is_noted() {
    let aws = Receiver::always(Answer::nothing().then_hang()).await;
    let proxy = Proxy::to(aws.address(), Vec::new()).await;
    let mut function = TcpStream::connect(proxy.address).await.unwrap();
    let call = "POST / HTTP/1.1\r\nhost: aws\r\nx-amz-target: DynamoDB.BatchGetItem\r\ncontent-length: 0\r\n\r\n";
    function.write_all(call.as_bytes()).await.unwrap();
    aws.wait_for(1).await;
    drop(function);
    // AWS ends as well, or the call would go on.
    drop(aws);
    let failed = loop {
        let seen = proxy.take_seen();
        if let Some(failed) = seen.failed_calls.into_iter().next() {
            break failed;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(failed.operation, "BatchGetItem");
    assert_eq!(failed.fault, "unanswered");
    assert!(failed.hung_up.is_some());
}

#[tokio::test]
async fn an_early_message_is_hidden_for_no_time() {
    let (came, _) = call("SendMessageBatch", Fault::Early).await;
    let all = TWO.replace('9', "0");
    assert_eq!(came, [all]);
}
