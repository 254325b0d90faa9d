//! Several stacks on one machine, and what one of them looks like when all is done. It keeps
//! records of failures only.

use e2e::receiver::Answer;
use e2e::stack::{Queue, Stack};

use crate::told;

#[tokio::test]
async fn two_stacks_do_not_meet_and_nothing_of_a_delivered_webhook_is_left() {
    let failures = [("DeliveryLog", "failures")];
    let (shared, own) = tokio::join!(Stack::shared(), Stack::start_with(&failures));
    assert_ne!(shared.output("JobsQueueUrl"), own.output("JobsQueueUrl"));
    let accept = || [Answer::status(200)];
    let mut here = own.partner("OrderRefunded", "kasse-nord", accept()).await;
    let answers = [Answer::status(500), Answer::status(200)];
    let mut late = own.partner("OrderRefunded", "lager-sued", answers).await;
    let mut there = shared
        .partner("OrderRefunded", "kasse-nord", accept())
        .await;
    let (event_here, event_there) = tokio::join!(
        own.publish_file("order-refunded.json"),
        shared.publish_file("order-refunded.json"),
    );
    let (id_here, id_there) = (here.webhook_id(&event_here), there.webhook_id(&event_there));
    let id_late = late.webhook_id(&event_here);
    here.next_post(&id_here).await;
    there.next_post(&id_there).await;
    late.next_post(&id_late).await;
    late.next_post(&id_late).await;

    own.until_count(Queue::Jobs, 0).await;
    for queue in [Queue::DeadLetters, Queue::DispatchFailures] {
        assert_eq!(own.count(queue).await, 0, "{queue:?}");
    }
    assert_eq!(
        [&here, &late, &there].map(|partner| partner.requests()),
        [1, 2, 1]
    );
    // What was delivered at once leaves a record only where every delivery does.
    assert_eq!(own.record(&id_here).await, None);
    let record = own.record(&id_late).await.expect("a record");
    assert_eq!(told(&record), ["1 retry 500", "2 delivered 200"]);
    shared.record_when(&id_there, "delivered").await;
}
