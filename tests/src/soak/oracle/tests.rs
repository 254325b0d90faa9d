//! Made-up runs: an oracle that never complains proves nothing.

use serde_json::json;

use super::super::evidence::Disabled;
use super::super::plan::{PartnerPlan, Plan};
use super::super::script::Script;
use super::*;

/// 2026-11-30T12:00:00Z
const START: u64 = 1_796_040_000_000;

const DETAIL: &str = r#"{"orderId": "K-1"}"#;

fn plan() -> Plan {
    let partner = |id: &str, script| PartnerPlan {
        id: id.to_owned(),
        script,
        event_types: vec!["OrderPaid".to_owned()],
    };
    let mut plan = Plan {
        windows: Vec::new(),
        kills: Vec::new(),
        ..Plan::draw(1, 12)
    };
    plan.partners = vec![
        partner("good-1", Script::Good),
        partner("broken-1", Script::Broken),
        partner("leaves-1", Script::Leaves),
    ];
    plan
}

fn body() -> String {
    format!(r#"{{"type":"OrderPaid","timestamp":"2026-11-30T12:00:00Z","data":{DETAIL}}}"#)
}

fn post(event: &str, partner: &str, at: u64, status: u16) -> Post {
    Post {
        partner: partner.to_owned(),
        webhook_id: format!("msg_{event}_{partner}"),
        at: START + at,
        body: body(),
        refused: None,
        status: Some(status),
        answered_at: Some(START + at + 5),
    }
}

/// One event that is delivered, dead and gone.
fn evidence() -> Evidence {
    let mut evidence = Evidence {
        published: vec![Published {
            id: "e1".to_owned(),
            event_type: "OrderPaid".to_owned(),
            detail: DETAIL.to_owned(),
            at: START + 500,
            taken: START + 520,
        }],
        posts: vec![
            post("e1", "good-1", 600, 204),
            post("e1", "broken-1", 600, 500),
            post("e1", "leaves-1", 600, 410),
        ],
        disabled: vec![Disabled {
            event_type: "OrderPaid".to_owned(),
            partner: "leaves-1".to_owned(),
            at: START + 610,
        }],
        ..Evidence::default()
    };
    evidence.dispatched.insert("e1".to_owned(), START + 550);
    evidence.calls = 10;
    evidence.dead_letters.insert("msg_e1_broken-1".to_owned());
    for (id, record) in [
        ("msg_e1_good-1", json!({"state": "delivered"})),
        (
            "msg_e1_broken-1",
            json!({
                "state": "dead",
                "deadReason": "attempts",
                "updatedAt": "2026-11-30T12:00:20.000Z",
                // Seven did not get through.
                "history": [{"status": 500}, {}, {}, {}, {}, {}, {}, {}],
            }),
        ),
        ("msg_e1_leaves-1", json!({"state": "gone"})),
    ] {
        evidence.records.insert(id.to_owned(), record);
    }
    evidence
}

#[test]
fn what_is_delivered_dead_or_gone_is_accounted_for() {
    let verdict = judge(&plan(), &evidence());
    assert_eq!(verdict.published, 3);
    assert_eq!(verdict.delivered, 1);
    assert_eq!(verdict.dead, BTreeMap::from([("attempts".to_owned(), 1)]));
    assert_eq!(verdict.gone, 1);
    assert!(!verdict.has_failed(), "{verdict}");
    assert_eq!(verdict.duplicates, BTreeMap::new());
}

/// Checks that exactly one delivery is lost.
fn assert_lost(evidence: &Evidence, webhook_id: &str) {
    let verdict = judge(&plan(), evidence);
    let [lost] = &verdict.lost[..] else {
        panic!("{verdict}");
    };
    assert!(lost.starts_with(webhook_id), "{lost}");
    assert!(verdict.has_failed());
}

#[test]
fn a_delivery_that_never_came_is_lost() {
    let mut evidence = evidence();
    evidence.posts.remove(0);
    assert_lost(&evidence, "msg_e1_good-1");
}

#[test]
fn a_2xx_that_was_not_written_or_came_too_late_delivers_nothing() {
    let mut unwritten = evidence();
    unwritten.posts[0].answered_at = None;
    assert_lost(&unwritten, "msg_e1_good-1");
    let mut late = evidence();
    late.posts[0].answered_at = Some(START + 600 + 3000);
    assert_lost(&late, "msg_e1_good-1");
    late.posts[0].answered_at = Some(START + 600 + 2999);
    assert_eq!(judge(&plan(), &late).lost, [] as [String; 0]);
}

#[test]
fn a_dead_delivery_that_is_not_in_the_queue_or_has_no_reason_is_lost() {
    let mut nowhere = evidence();
    nowhere.dead_letters.clear();
    assert_lost(&nowhere, "msg_e1_broken-1");
    let mut without_reason = evidence();
    without_reason.records.remove("msg_e1_broken-1");
    assert_lost(&without_reason, "msg_e1_broken-1");
}

#[test]
fn nothing_is_gone_while_the_subscription_is_on() {
    let mut evidence = evidence();
    evidence.disabled.clear();
    assert_lost(&evidence, "msg_e1_leaves-1");
}

#[test]
fn an_event_of_before_the_410_is_not_gone_by_itself() {
    let mut evidence = evidence();
    evidence.published.push(Published {
        id: "e0".to_owned(),
        at: START - 10_000,
        taken: START - 10_000,
        ..evidence.published[0].clone()
    });
    evidence.dispatched.insert("e0".to_owned(), START - 9000);
    let lost = judge(&plan(), &evidence).lost;
    assert_eq!(lost.len(), 3, "{lost:?}");
    evidence.dropped.insert("msg_e0_leaves-1".to_owned());
    let lost = judge(&plan(), &evidence).lost;
    assert_eq!(lost.len(), 2, "{lost:?}");
}

#[test]
fn an_event_that_dispatch_gave_up_is_dead_and_says_so() {
    let mut evidence = evidence();
    evidence.posts.remove(0);
    evidence.undispatched.insert("e1".to_owned());
    // One of two dispatches has failed: the other has made all jobs.
    assert_lost(&evidence, "msg_e1_good-1");
    evidence.dispatched.clear();
    let verdict = judge(&plan(), &evidence);
    assert_eq!(verdict.dead["not dispatched"], 1);
    assert!(!verdict.has_failed());
}

/// Checks that this, and nothing else, is wrong.
fn assert_wrong(evidence: &Evidence, text: &str) {
    let verdict = judge(&plan(), evidence);
    assert!(
        verdict.wrong.iter().any(|wrong| wrong.contains(text)),
        "{verdict}"
    );
    assert!(verdict.has_failed());
}

#[test]
fn a_wrong_signature_is_wrong_and_delivers_nothing() {
    let mut evidence = evidence();
    evidence.posts[0].refused = Some("no matching signature found".to_owned());
    assert_wrong(&evidence, "msg_e1_good-1: no matching signature found");
    assert_lost(&evidence, "msg_e1_good-1");
}

#[test]
fn another_body_than_the_published_one_is_wrong() {
    for (from, to) in [
        ("K-1", "K-2"),
        ("OrderPaid", "OrderRefunded"),
        ("12:00:00", "12:00:09"),
        (": ", ":"),
    ] {
        let mut evidence = evidence();
        evidence.posts[1].body = body().replace(from, to);
        assert_wrong(&evidence, "msg_e1_broken-1: another");
    }
}

#[test]
fn attempts_with_different_bodies_are_wrong() {
    let mut evidence = evidence();
    let mut second = post("e1", "broken-1", 2000, 500);
    second.body = body().replace("12:00:00", "12:00:01");
    evidence.posts.push(second);
    assert_wrong(&evidence, "msg_e1_broken-1: the body changed");
}

#[test]
fn what_nobody_published_or_was_for_somebody_else_is_wrong() {
    let mut unpublished = evidence();
    unpublished.posts.push(post("e2", "good-1", 700, 204));
    assert_wrong(&unpublished, "msg_e2_good-1 came to good-1");
    let mut astray = evidence();
    astray.posts[0].partner = "broken-1".to_owned();
    assert_wrong(&astray, "msg_e1_good-1 came to broken-1");
}

#[test]
fn what_comes_long_after_a_410_is_wrong() {
    let mut evidence = evidence();
    evidence
        .posts
        .push(post("e1", "leaves-1", 610 + 10_001, 410));
    assert_wrong(&evidence, "long off");
    // A batch that had read the row before.
    evidence.posts[3].at = START + 610 + 10_000;
    assert_eq!(judge(&plan(), &evidence).wrong, [] as [String; 0]);
}

/// A second attempt that comes before its time.
fn too_early() -> Evidence {
    let mut evidence = evidence();
    evidence.records.insert(
        "msg_e1_broken-1".to_owned(),
        json!({
            "state": "dead",
            "deadReason": "attempts",
            "history": [
                {"at": "2026-11-30T12:00:00.650Z", "nextAt": "2026-11-30T12:00:03.000Z"},
                {}, {}, {}, {}, {},
            ],
        }),
    );
    evidence.posts.push(post("e1", "broken-1", 2800, 500));
    evidence
}

#[test]
fn what_comes_before_its_time_is_wrong_unless_the_record_could_not_be_read() {
    let mut evidence = too_early();
    assert_wrong(&evidence, "msg_e1_broken-1: 200 ms too early");
    evidence
        .failed_calls
        .push(failed("BatchGetItem", "msg_e1_broken-1", 2700));
    assert_eq!(judge(&plan(), &evidence).wrong, [] as [String; 0]);
}

#[test]
fn the_worst_delay_is_counted_from_when_the_attempt_was_due() {
    let mut evidence = evidence();
    let entry = json!({"at": "2026-11-30T12:00:00.650Z", "nextAt": "2026-11-30T12:00:03.000Z"});
    let record = evidence.records.get_mut("msg_e1_broken-1").unwrap();
    record["history"] = json!([entry]);
    evidence.posts.push(post("e1", "broken-1", 3700, 500));
    let delays = judge(&plan(), &evidence).delays;
    assert_eq!(delays.undisturbed.map(|delay| delay.ms), Some(700));
    assert_eq!(delays.disturbed, None);
    evidence.kills.push(START + 3500);
    let delays = judge(&plan(), &evidence).delays;
    assert_eq!(delays.undisturbed.map(|delay| delay.ms), Some(100));
    assert_eq!(delays.disturbed.map(|delay| delay.ms), Some(700));
}

#[test]
fn what_the_queue_gave_to_two_may_be_early_ever_after() {
    let mut evidence = too_early();
    evidence.impatience.push((START + 600, START + 601));
    assert_eq!(judge(&plan(), &evidence).wrong, [] as [String; 0]);
    evidence.impatience = vec![(START + 2801, START + 2900)];
    assert_wrong(&evidence, "msg_e1_broken-1: 200 ms too early");
}

#[test]
fn what_was_made_visible_may_be_early_while_the_records_are_distrusted() {
    let mut evidence = too_early();
    let mut visible = failed("ChangeMessageVisibilityBatch", "", 2700);
    visible.fault = "early".to_owned();
    evidence.failed_calls.push(visible);
    assert_wrong(&evidence, "msg_e1_broken-1: 200 ms too early");
    evidence
        .failed_calls
        .push(failed("UpdateItem", "msg_e1_good-1", 100));
    assert_eq!(judge(&plan(), &evidence).wrong, [] as [String; 0]);
    // That does not last for ever.
    evidence.failed_calls[1].at = START + 2800 - 60_001;
    assert_wrong(&evidence, "msg_e1_broken-1: 200 ms too early");
}

#[test]
fn who_hangs_up_when_killed_was_not_kept_waiting() {
    let mut evidence = evidence();
    let mut call = failed("BatchGetItem", "msg_e1_good-1", 600);
    call.hung_up = Some(START + 1500);
    evidence.failed_calls.push(call);
    assert_eq!(judge(&plan(), &evidence).slow_calls, 1);
    evidence.kills.push(START + 1000);
    assert_eq!(judge(&plan(), &evidence).slow_calls, 0);
}

#[test]
fn an_event_of_before_the_410_is_gone_if_its_jobs_were_made_after_it() {
    let mut evidence = evidence();
    evidence.published[0].at = START - 10_000;
    evidence.posts.remove(2);
    evidence.records.remove("msg_e1_leaves-1");
    evidence.posts.push(post("e0", "leaves-1", 605, 410));
    let lost = |evidence: &Evidence| judge(&plan(), evidence).lost.len();
    assert_eq!(lost(&evidence), 1);
    evidence.dispatched.insert("e1".to_owned(), START + 700);
    assert_eq!(lost(&evidence), 0);
    // There was a job after all.
    evidence.jobs.insert("msg_e1_leaves-1".to_owned());
    assert_eq!(lost(&evidence), 1);
}

#[test]
fn the_time_of_an_event_is_when_eventbridge_took_it() {
    let mut evidence = evidence();
    for (at, taken, is_wrong) in [
        (1000, 1000, false),
        (1001, 1001, true),
        (-5000, -1000, false),
        (-5000, -1001, true),
    ] {
        let event = &mut evidence.published[0];
        event.at = START.saturating_add_signed(at);
        event.taken = START.saturating_add_signed(taken);
        let wrong = judge(&plan(), &evidence).wrong;
        assert_eq!(!wrong.is_empty(), is_wrong, "{at} {taken} {wrong:?}");
    }
}

#[test]
fn a_partner_that_accepts_has_no_dead_deliveries() {
    let mut evidence = evidence();
    evidence.posts[0].status = Some(500);
    let id = "msg_e1_good-1";
    evidence.dead_letters.insert(id.to_owned());
    let dead = |evidence: &Evidence, reason: &str| {
        let mut evidence = evidence.clone();
        let record = json!({
            "state": "dead", "deadReason": reason, "updatedAt": "2026-11-30T12:00:20.000Z",
        });
        evidence.records.insert(id.to_owned(), record);
        evidence
    };
    assert_wrong(&dead(&evidence, "status"), "msg_e1_good-1: dead by status");
    for reason in ["faults", "receives"] {
        let wrong = judge(&plan(), &dead(&evidence, reason)).wrong;
        assert_eq!(wrong, [] as [String; 0]);
    }
    let mut evidence = dead(&evidence, "attempts");
    assert_wrong(&evidence, "msg_e1_good-1: dead after 1 requests");
    evidence.failed_calls.push(failed("BatchGetItem", id, 3000));
    let verdict = judge(&plan(), &evidence);
    assert_eq!(verdict.wrong, [] as [String; 0]);
    assert_eq!(verdict.dead_early, 1);
    // The same call, made again, was answered.
    evidence.failed_calls[0].answered_later = true;
    assert_wrong(&evidence, "msg_e1_good-1: dead after 1 requests");
    // Something could not be written within a minute before the event.
    evidence.failed_calls[0] = failed("UpdateItem", "", 0);
    evidence.failed_calls[0].at = START + 500 - 60_000;
    assert_eq!(judge(&plan(), &evidence).dead_early, 1);
    evidence.failed_calls[0].at -= 1;
    assert_wrong(&evidence, "msg_e1_good-1: dead after 1 requests");
}

#[test]
fn a_dead_delivery_had_all_its_attempts() {
    let mut evidence = evidence();
    let record = evidence.records.get_mut("msg_e1_broken-1").unwrap();
    record["history"].as_array_mut().unwrap().pop();
    assert_wrong(&evidence, "msg_e1_broken-1: dead after 1 requests");
    evidence.posts.push(post("e1", "broken-1", 2000, 500));
    assert!(!judge(&plan(), &evidence).has_failed());
}

#[test]
fn who_has_not_shown_who_it_is_gets_nothing() {
    let mut plan = plan();
    plan.partners[1].script = Script::SelfSigned;
    let wrong = judge(&plan, &evidence()).wrong;
    assert_eq!(
        wrong,
        ["msg_e1_broken-1 came to broken-1, which had not shown who it is"]
    );
}

#[test]
fn a_run_in_which_nothing_happened_has_failed() {
    let plan = Plan {
        kills: vec![1],
        ..Plan::draw(1, 12)
    };
    let wrong = judge(&plan, &Evidence::default()).wrong;
    let windows = plan.windows.len();
    assert_eq!(
        wrong,
        [
            format!("none of {windows} times of failing calls came about"),
            "none of 1 kills came about".to_owned(),
            "nothing was published".to_owned(),
            "no call of AWS came through the proxy".to_owned(),
        ]
    );
}

#[test]
fn what_was_planned_is_counted() {
    let plan = Plan::draw(7, 60);
    let mut evidence = evidence();
    evidence.met = vec![0, 3, 1];
    evidence.kills = vec![START + 99_000];
    let happened = judge(&plan, &evidence).happened;
    let pair = |share: &Share| (share.done, share.planned);
    assert_eq!(pair(&happened[0]), (2, plan.windows.len()));
    assert_eq!(pair(&happened[1]), (1, 2));
}

#[test]
fn a_run_that_leaves_jobs_in_the_queue_has_failed() {
    let mut evidence = evidence();
    evidence.left = 1;
    assert!(judge(&plan(), &evidence).has_failed());
}

#[test]
fn many_duplicates_of_no_known_cause_fail_a_run() {
    let mut verdict = Verdict {
        published: 200,
        unexplained: vec![String::new(); 2],
        ..Verdict::default()
    };
    assert!(!verdict.has_failed());
    verdict.unexplained.push(String::new());
    assert!(verdict.has_failed());
}

fn failed(operation: &str, webhook_id: &str, at: u64) -> FailedCall {
    FailedCall {
        at: START + at,
        operation: operation.to_owned(),
        fault: "error".to_owned(),
        webhook_ids: [webhook_id.to_owned()].into(),
        ..FailedCall::default()
    }
}

#[test]
fn every_duplicate_has_the_cause_that_the_run_knows() {
    let twice = || {
        let mut evidence = evidence();
        evidence.posts.push(post("e1", "good-1", 4000, 204));
        evidence
    };
    let id = "msg_e1_good-1";
    let assert_cause = |evidence: &Evidence, cause| {
        let verdict = judge(&plan(), evidence);
        assert_eq!(verdict.duplicates, BTreeMap::from([(cause, 1)]));
        verdict
    };
    let verdict = assert_cause(&twice(), Cause::Unknown);
    assert_eq!(verdict.unexplained.len(), 1);

    let mut late = twice();
    late.posts[0].answered_at = Some(START + 3700);
    assert_cause(&late, Cause::AnsweredTooLate);

    let mut killed = twice();
    killed.kills.push(START + 601);
    assert_cause(&killed, Cause::Killed);
    killed.kills = vec![START + 599, START + 4001];
    assert_cause(&killed, Cause::Unknown);

    let mut unwritten = twice();
    unwritten
        .failed_calls
        .push(failed("BatchWriteItem", id, 700));
    assert_cause(&unwritten, Cause::RecordUnwritten);
    unwritten.failed_calls = vec![failed("BatchWriteItem", "msg_e1_broken-1", 700)];
    assert_cause(&unwritten, Cause::Unknown);

    let mut unread = twice();
    unread.failed_calls.push(failed("BatchGetItem", id, 3900));
    assert_cause(&unread, Cause::RecordUnread);

    let mut sent_twice = twice();
    sent_twice
        .failed_calls
        .push(failed("SendMessageBatch", id, 550));
    assert_cause(&sent_twice, Cause::DispatchedTwice);

    let mut again = twice();
    again.again.push(("e1".to_owned(), START + 1000));
    assert_cause(&again, Cause::DispatchedTwice);

    let mut impatient = twice();
    impatient.impatience.push((START + 500, START + 2000));
    assert_cause(&impatient, Cause::RedeliveredEarly);
}

#[test]
fn what_was_long_known_to_be_delivered_must_not_come_again() {
    let mut evidence = evidence();
    evidence.posts.push(post("e1", "good-1", 7000, 204));
    evidence.kills.push(START + 700);
    let known = &mut evidence.known_delivered;
    known.insert("msg_e1_good-1".to_owned(), START + 650);
    assert_wrong(&evidence, "known to be delivered");
    // Unless somebody else has written that it was not.
    let overwritten = &mut evidence.overwritten;
    overwritten.insert("msg_e1_good-1".to_owned(), START + 7001);
    assert_wrong(&evidence, "known to be delivered");
    evidence.overwritten.clear();
    let mut overwritten = evidence.clone();
    let when = &mut overwritten.overwritten;
    when.insert("msg_e1_good-1".to_owned(), START + 2000);
    let verdict = judge(&plan(), &overwritten);
    let causes = BTreeMap::from([(Cause::Overwritten, 1)]);
    assert_eq!(verdict.duplicates, causes);
    // A batch that had read the record before.
    evidence.posts[3].at = START + 5000;
    let verdict = judge(&plan(), &evidence);
    assert_eq!(verdict.duplicates, BTreeMap::from([(Cause::Killed, 1)]));
    assert!(!verdict.has_failed());
}
