//! Several stacks on one machine, and what one of them looks like when all is done.

use e2e::receiver::Answer;
use e2e::stack::{Queue, Stack};

#[tokio::test]
async fn two_stacks_do_not_meet_and_nothing_of_a_delivered_webhook_is_left() {
    let (shared, own) = tokio::join!(Stack::shared(), Stack::start());
    assert_ne!(shared.output("JobsQueueUrl"), own.output("JobsQueueUrl"));
    let accept = || [Answer::status(200)];
    let mut here = own.partner("OrderRefunded", "kasse-nord", accept()).await;
    let mut there = shared
        .partner("OrderRefunded", "kasse-nord", accept())
        .await;
    let (event_here, event_there) = tokio::join!(
        own.publish_file("order-refunded.json"),
        shared.publish_file("order-refunded.json"),
    );
    here.next_post(&here.webhook_id(&event_here)).await;
    there.next_post(&there.webhook_id(&event_there)).await;

    own.until_count(Queue::Jobs, 0).await;
    for queue in [Queue::DeadLetters, Queue::DispatchFailures] {
        assert_eq!(own.count(queue).await, 0, "{queue:?}");
    }
    assert_eq!([here.requests(), there.requests()], [1, 1]);
}
