//! Several stacks on one machine.

use e2e::receiver::Answer;

use crate::policies::{CONTRACT_72H, STANDARD};

#[tokio::test]
async fn two_stacks_do_not_meet() {
    let (here, there) = tokio::join!(STANDARD.stack(), CONTRACT_72H.stack());
    assert_ne!(here.output("JobsQueueUrl"), there.output("JobsQueueUrl"));
    let accept = || [Answer::status(200)];
    let mut at_here = here.partner("OrderRefunded", "kasse-nord", accept()).await;
    let mut at_there = there.partner("OrderRefunded", "kasse-nord", accept()).await;
    let (event_here, event_there) = tokio::join!(
        here.publish_file("order-refunded.json"),
        there.publish_file("order-refunded.json"),
    );
    let id_here = at_here.webhook_id(&event_here);
    let id_there = at_there.webhook_id(&event_there);
    at_here.next_post(&id_here).await;
    at_there.next_post(&id_there).await;

    here.record_when(&id_here, "delivered").await;
    there.record_when(&id_there, "delivered").await;
    assert_eq!(here.record(&id_there).await, None);
    assert_eq!(there.record(&id_here).await, None);
    assert_eq!([at_here.requests(), at_there.requests()], [1, 1]);
}
