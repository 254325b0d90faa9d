//! The proxy in front of an AWS that takes everything.

use super::*;
use crate::receiver::{Answer, Receiver};

const TWO: &str =
    r#"{"Entries":[{"Id":"0","VisibilityTimeout":9},{"Id":"1","VisibilityTimeout":9}]}"#;
const TAKEN: &str = r#"{"Successful":[{"Id":"1"}]}"#;

/// What AWS gets of a call of an operation that fails like that, and what the function gets back.
async fn call(operation: &str, fault: Fault) -> (Vec<String>, String) {
    let aws = Receiver::always(Answer::with(200, &[], TAKEN.as_bytes()).then_close()).await;
    let window = Window {
        from: 0,
        to: 60_000,
        operation: "SendMessageBatch".to_owned(),
        fault,
        every: 1,
        only: None,
    };
    let proxy = Proxy::to(aws.address(), vec![window]).await;
    proxy.start(Instant::now());
    let mut function = TcpStream::connect(proxy.address).await.unwrap();
    let call = format!(
        "POST / HTTP/1.1\r\nhost: aws\r\nx-amz-target: AmazonSQS.{operation}\r\ncontent-length: {}\r\n\r\n{TWO}",
        TWO.len()
    );
    function.write_all(call.as_bytes()).await.unwrap();
    let mut answer = String::new();
    function.read_to_string(&mut answer).await.unwrap();
    let came = aws.requests();
    let came = came.iter().map(|request| request.text().to_owned());
    (came.collect(), answer)
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
