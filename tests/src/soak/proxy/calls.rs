//! What a call of the functions says of deliveries.

use std::collections::BTreeSet;

use serde_json::Value;

/// What a write says of deliveries.
pub(super) fn states(body: &[u8]) -> Vec<(String, String)> {
    let input: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| value["S"].as_str().map(str::to_owned);
    let update =
        text(&input["Key"]["webhookId"]).zip(text(&input["ExpressionAttributeValues"][":state"]));
    let tables = input["RequestItems"].as_object().into_iter().flatten();
    let items = tables.flat_map(|(_, writes)| writes.as_array().into_iter().flatten());
    let puts = items
        .map(|write| &write["PutRequest"]["Item"])
        .filter_map(|item| text(&item["webhookId"]).zip(text(&item["state"])));
    update.into_iter().chain(puts).collect()
}

/// A job that `dispatch` sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub webhook_id: String,
    pub event_id: String,
    pub occurred_at: String,
}

/// The jobs in a `SendMessageBatch`.
pub(super) fn jobs(body: &[u8]) -> Vec<Job> {
    let input: Value = serde_json::from_slice(body).unwrap_or_default();
    let entries = input["Entries"].as_array().into_iter().flatten();
    let bodies = entries.filter_map(|entry| entry["MessageBody"].as_str());
    let jobs = bodies.filter_map(|body| serde_json::from_str::<Value>(body).ok());
    let job = |job: Value| {
        let text = |name: &str| job[name].as_str().map(str::to_owned);
        Some(Job {
            webhook_id: text("webhookId")?,
            event_id: text("eventId")?,
            occurred_at: text("occurredAt")?,
        })
    };
    jobs.filter_map(job).collect()
}

/// The webhook ids in a text.
pub(super) fn webhook_ids(body: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(body);
    let is_other = |letter: char| !(letter.is_ascii_alphanumeric() || "_-".contains(letter));
    text.split(is_other)
        .filter(|word| word.starts_with("msg_"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_of_writes_say_how_deliveries_stand() {
        let put = json!({"RequestItems": {"deliveries": [
            {"PutRequest": {"Item": {"webhookId": {"S": "msg_1_a"}, "state": {"S": "delivered"}}}},
            {"PutRequest": {"Item": {"webhookId": {"S": "msg_1_b"}, "state": {"S": "retrying"}}}},
        ]}});
        let update = json!({
            "Key": {"webhookId": {"S": "msg_1_c"}},
            "ExpressionAttributeValues": {":state": {"S": "dead"}, ":delivered": {"S": "delivered"}},
        });
        let pair = |id: &str, state: &str| (id.to_owned(), state.to_owned());
        assert_eq!(
            states(put.to_string().as_bytes()),
            [pair("msg_1_a", "delivered"), pair("msg_1_b", "retrying")]
        );
        assert_eq!(
            states(update.to_string().as_bytes()),
            [pair("msg_1_c", "dead")]
        );
        assert_eq!(states(b"no JSON"), []);
    }

    #[test]
    fn a_batch_of_jobs_tells_of_which_event_they_are() {
        let job = json!({"webhookId": "msg_1_a", "eventId": "1", "occurredAt": "noon"}).to_string();
        let batch = json!({"Entries": [{"MessageBody": job}, {"MessageBody": "no JSON"}]});
        let expected = Job {
            webhook_id: "msg_1_a".to_owned(),
            event_id: "1".to_owned(),
            occurred_at: "noon".to_owned(),
        };
        assert_eq!(jobs(batch.to_string().as_bytes()), [expected]);
    }

    #[test]
    fn a_call_names_the_deliveries_that_it_is_about() {
        let body = r#"{"Entries":[{"MessageBody":"{\"webhookId\":\"msg_1-2_kasse-nord\"}"}]}"#;
        let ids: Vec<String> = webhook_ids(body.as_bytes()).into_iter().collect();
        assert_eq!(ids, ["msg_1-2_kasse-nord"]);
    }
}
