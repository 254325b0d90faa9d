//! Notices to operators, as events on the bus that our own events come from: a delivery is dead,
//! a subscription was switched off. dispatch takes no event of this source, or a notice could
//! become a webhook and its failure another notice.

use aws_config::SdkConfig;
use aws_sdk_eventbridge::Client;
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use serde::Serialize;
use webhooks_core::event::OWN_SOURCE;
use webhooks_shell::aws;

/// `PutEvents` takes ten entries.
const ENTRIES_PER_CALL: usize = 10;

/// Something that an operator may want to react to.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum Notice {
    /// A run has ended without a delivery.
    Dead {
        webhook_id: String,
        event_id: String,
        event_type: String,
        subscriber_id: String,
        attempts: u32,
        reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A subscription was switched off.
    Disabled {
        event_type: String,
        subscriber_id: String,
        webhook_id: String,
        reason: &'static str,
    },
}

impl Notice {
    /// Whether it says that a delivery is dead.
    pub(crate) fn is_of_death(&self) -> bool {
        match self {
            Self::Dead { .. } => true,
            Self::Disabled { .. } => false,
        }
    }

    fn detail_type(&self) -> &'static str {
        match self {
            Self::Dead { .. } => "webhooks.delivery.dead",
            Self::Disabled { .. } => "webhooks.subscription.disabled",
        }
    }
}

/// The bus, if notices are wanted.
pub(crate) struct Notices {
    bus: Option<(Client, String)>,
}

impl Notices {
    pub(crate) fn new(aws: &SdkConfig, bus_name: Option<String>) -> Self {
        Self {
            bus: bus_name.map(|name| (Client::new(aws), name)),
        }
    }

    /// Sends notices. What can not be sent is logged and forgotten: the log and the record tell
    /// the same.
    pub(crate) async fn send(&self, notices: Vec<Notice>) {
        let Some((client, bus_name)) = &self.bus else {
            return;
        };
        for chunk in notices.chunks(ENTRIES_PER_CALL) {
            let entries = chunk
                .iter()
                .filter_map(|notice| {
                    let detail = serde_json::to_string(notice).ok()?;
                    let entry = PutEventsRequestEntry::builder()
                        .event_bus_name(bus_name)
                        .source(OWN_SOURCE)
                        .detail_type(notice.detail_type())
                        .detail(detail);
                    Some(entry.build())
                })
                .collect();
            let answer = client.put_events().set_entries(Some(entries)).send().await;
            let (error, unsent) = match &answer {
                Ok(answer) if answer.failed_entry_count() == 0 => continue,
                Ok(answer) => {
                    let failed = answer
                        .entries()
                        .iter()
                        .filter(|entry| entry.event_id().is_none());
                    let reason = failed.clone().find_map(|entry| entry.error_code());
                    (reason.unwrap_or_default().to_owned(), failed.count())
                }
                Err(error) => (aws::describe(error), chunk.len()),
            };
            tracing::error!(error, notices = unsent, "notices.unsent");
        }
    }
}
