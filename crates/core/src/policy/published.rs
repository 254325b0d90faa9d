//! The four policies that are published.

use std::time::Duration;

use super::{Jitter, MARGIN, RetryPolicy, SQS_LONGEST_VISIBILITY, Schedule, Statuses, Treatment};

/// The names of the published policies.
pub const NAMES: [&str; 4] = ["standard", "bounded", "contract-72h", "payments-24h"];

/// 30 s, 5 min, 30 min, 2 h, 6 h, then every 12 h.
const CONTRACT_72H: [Duration; 6] = [
    Duration::from_secs(30),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
    Duration::from_hours(12),
];

impl RetryPolicy {
    /// The policy of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(Self::standard()),
            "bounded" => Some(Self::bounded()),
            "contract-72h" => Some(Self::contract_72h()),
            "payments-24h" => Some(Self::payments_24h()),
            _ => None,
        }
    }

    /// `standard`: 1, 3, 9, 27, 81, 243 minutes, then 6 hours; 8 attempts of at most 10 s. Every
    /// failure is retried.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            name: "standard",
            schedule: Schedule::Growing {
                base: Duration::from_mins(1),
                factor: 3,
                cap: Duration::from_hours(6),
            },
            jitter: Jitter::Equal,
            attempts: 8,
            horizon: None,
            timeout: Duration::from_secs(10),
            retry_after_cap: None,
            statuses: Statuses {
                rules: &[],
                otherwise: Treatment::Retry,
            },
            longest_delay_seconds: SQS_LONGEST_VISIBILITY - MARGIN,
            time_scale: 1.0,
        }
    }

    /// `bounded`: 30 s, doubled up to 6 hours; 8 attempts of at most 10 s. Only what may pass by
    /// itself is retried, and no `Retry-After` delays it by more than 6 hours.
    #[must_use]
    pub fn bounded() -> Self {
        let cap = Duration::from_hours(6);
        Self {
            name: "bounded",
            schedule: Schedule::Growing {
                base: Duration::from_secs(30),
                factor: 2,
                cap,
            },
            retry_after_cap: Some(cap),
            statuses: Statuses {
                rules: &[
                    (408, 408, Treatment::Retry),
                    (425, 425, Treatment::Retry),
                    (429, 429, Treatment::Retry),
                    (500, 599, Treatment::Retry),
                ],
                otherwise: Treatment::Dead,
            },
            ..Self::standard()
        }
    }

    /// `contract-72h`: a fixed table of delays until 72 hours have passed, attempts of at most
    /// 8 s. What the receiver rejects is tried three times.
    #[must_use]
    pub fn contract_72h() -> Self {
        const REJECTED: Treatment = Treatment::AtMost(3);
        Self {
            name: "contract-72h",
            schedule: Schedule::Table(&CONTRACT_72H),
            jitter: Jitter::Around(0.05),
            // As many as the table has within the horizon, however the jitter falls.
            attempts: 11,
            horizon: Some(Duration::from_hours(72)),
            timeout: Duration::from_secs(8),
            statuses: Statuses {
                rules: &[(400, 401, REJECTED), (403, 404, REJECTED)],
                otherwise: Treatment::Retry,
            },
            ..Self::standard()
        }
    }

    /// `payments-24h`: 10 s, doubled up to an hour, all of it random, until 24 hours have passed;
    /// attempts of at most 10 s. What can not get better by itself is dead at once.
    #[must_use]
    pub fn payments_24h() -> Self {
        Self {
            name: "payments-24h",
            schedule: Schedule::Growing {
                base: Duration::from_secs(10),
                factor: 2,
                cap: Duration::from_hours(1),
            },
            jitter: Jitter::Full,
            // About 56 in the mean. A hundred within the horizon would need a mean delay of less
            // than half of what chance gives.
            attempts: 100,
            horizon: Some(Duration::from_hours(24)),
            statuses: Statuses {
                rules: &[
                    (400, 401, Treatment::Dead),
                    (403, 403, Treatment::Dead),
                    (422, 422, Treatment::Dead),
                ],
                otherwise: Treatment::Retry,
            },
            ..Self::standard()
        }
    }
}
