//! What has come: the events themselves, by the identity that every repeat shares.
//!
//! An event and the mark that it has been seen are one item, written by one conditional call. Two
//! writes could be torn apart: seen but not stored loses an event, stored but not seen takes it
//! twice.

use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;

use crate::envelope::Envelope;

mod memory;
mod table;

/// Where events are stored.
#[derive(Debug)]
pub enum Store {
    /// A DynamoDB table.
    Table(table::Table),
    /// Nowhere; only their ids are remembered, while the process runs.
    Memory(memory::Memory),
}

/// Whether an event is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It is, and has been stored.
    New,
    /// It has been stored before.
    Repeat,
}

/// Why an event was not stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It does not fit into an item.
    #[error("the event does not fit into an item")]
    TooLarge,
    /// DynamoDB could not be asked, or refused.
    #[error("PutItem: {0}")]
    Unwritable(String),
}

impl Store {
    /// Events are stored in this DynamoDB table, whose key is `webhookId`.
    #[must_use]
    pub fn table(aws: &SdkConfig, name: String) -> Self {
        Self::Table(table::Table::new(aws, name))
    }

    /// Ids are kept in memory.
    #[must_use]
    pub fn memory() -> Self {
        Self::Memory(memory::Memory::default())
    }

    /// Stores an event until `keep` has passed, unless it is stored already.
    pub(crate) async fn put(
        &self,
        webhook_id: &str,
        envelope: &Envelope<'_>,
        now: SystemTime,
        keep: Duration,
    ) -> Result<Stored, StoreError> {
        match self {
            Self::Table(table) => table.put(webhook_id, envelope, now, keep).await,
            Self::Memory(memory) => Ok(memory.put(webhook_id, now, keep)),
        }
    }
}
