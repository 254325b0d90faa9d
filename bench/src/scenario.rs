//! What deliver is measured in, and beside what.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::workload::Script;

/// What is measured side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The function, with a record of each delivery.
    OursAll,
    /// The function, with records of failures only.
    OursFailures,
    /// The baseline in Node.js, with a record of each delivery.
    NodeAll,
    /// The baseline in Node.js, with records of failures only.
    NodeFailures,
    /// The baseline in Node.js with its older HTTP client, with a record of each delivery.
    NodeHttpAll,
    /// The bare HTTP client.
    Floor,
}

impl Kind {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 6] = [
        Self::OursAll,
        Self::OursFailures,
        Self::NodeAll,
        Self::NodeFailures,
        Self::NodeHttpAll,
        Self::Floor,
    ];

    /// Heads a column.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::OursAll => "ours, all",
            Self::OursFailures => "ours, failures",
            Self::NodeAll => "Node.js, all",
            Self::NodeFailures => "Node.js, failures",
            Self::NodeHttpAll => "Node.js http, all",
            Self::Floor => "bare client",
        }
    }

    /// What the baseline sends webhooks with.
    pub(crate) fn http_client(self) -> Option<&'static str> {
        match self {
            Self::NodeAll | Self::NodeFailures => Some("fetch"),
            Self::NodeHttpAll => Some("http"),
            Self::OursAll | Self::OursFailures | Self::Floor => None,
        }
    }

    pub(crate) fn delivery_log(self) -> &'static str {
        match self {
            Self::OursAll | Self::NodeAll | Self::NodeHttpAll => "all",
            Self::OursFailures | Self::NodeFailures | Self::Floor => "failures",
        }
    }
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The bootstrap of deliver.
    pub deliver: PathBuf,
    /// Node.js and the bundle of the baseline; without them it is left out.
    pub node: Option<(PathBuf, PathBuf)>,
    /// The bare client.
    pub floor: PathBuf,
}

impl Programs {
    /// What there is to measure.
    #[must_use]
    pub fn kinds(&self) -> Vec<Kind> {
        Kind::ALL
            .into_iter()
            .filter(|kind| match kind {
                Kind::OursAll | Kind::OursFailures | Kind::Floor => true,
                Kind::NodeAll | Kind::NodeFailures | Kind::NodeHttpAll => self.node.is_some(),
            })
            .collect()
    }

    /// The same, but each round begins with another one, so that none comes always after the same
    /// pause or first of all.
    #[must_use]
    pub fn kinds_from(&self, round: usize) -> Vec<Kind> {
        let mut kinds = self.kinds();
        let first = round % kinds.len();
        kinds.rotate_left(first);
        kinds
    }
}

/// What the partners do, and how much of it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// By which it is chosen.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Of each webhook.
    pub payload_bytes: usize,
    /// Whether each has failed once before and has a record.
    pub again: bool,
    /// What the partners answer.
    pub script: Script,
    /// After which time they answer.
    pub delay: Duration,
    /// Whether they speak TLS.
    pub tls: bool,
    /// Whether they end each connection.
    pub closes: bool,
    /// Batches before the measurement, after the first one.
    pub warm_up: usize,
    /// Batches that are measured.
    pub batches: usize,
}

const BASE: Scenario = Scenario {
    name: "base",
    title: "1 KB, http, each answered 204",
    payload_bytes: 1024,
    again: false,
    script: Script::Succeed,
    delay: Duration::ZERO,
    tls: false,
    closes: false,
    // Node.js goes on compiling for some thousand deliveries.
    warm_up: 1000,
    batches: 500,
};

/// Every scenario. [`Scenario::name`] of the first is `base`.
pub const SCENARIOS: [Scenario; 9] = [
    BASE,
    Scenario {
        name: "20kb",
        title: "20 KB, http, each answered 204",
        payload_bytes: 20_480,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "250kb",
        title: "250 KB, http, each answered 204",
        payload_bytes: 256_000,
        warm_up: 10,
        batches: 40,
        ..BASE
    },
    Scenario {
        name: "fail",
        title: "1 KB, http, each answered 500",
        script: Script::Fail,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "half",
        title: "1 KB, http, every second one answered 500",
        script: Script::Half,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "again",
        title: "1 KB, http, second attempts, each answered 204",
        again: true,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "tls",
        title: "1 KB, https on kept connections, each answered 204",
        tls: true,
        warm_up: 50,
        batches: 200,
        ..BASE
    },
    Scenario {
        name: "tls-new",
        title: "1 KB, https on a new connection each, each answered 204",
        tls: true,
        closes: true,
        warm_up: 20,
        batches: 100,
        ..BASE
    },
    Scenario {
        name: "latency",
        title: "1 KB, http, each answered 204 after 20 ms",
        delay: Duration::from_millis(20),
        warm_up: 10,
        batches: 100,
        ..BASE
    },
];
