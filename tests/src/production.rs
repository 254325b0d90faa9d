//! A stage for `deliver` as it runs in production, in a [network] of its own.

use std::time::Duration;

use serde_json::Value;

use crate::dns::Dns;
use crate::network::{self, Forbidden};
use crate::runtime::Environment;
use crate::sqs_event::{Job, Record};
use crate::stage::Stage;
use crate::tls::{Authority, Identity, Validity};

/// Everything around the function.
#[derive(Debug)]
pub struct Production {
    /// AWS.
    pub stage: Stage,
    /// The resolver.
    pub dns: Dns,
    /// The authority that the function trusts beside those of the world.
    pub authority: Authority,
    forbidden: Forbidden,
}

/// What an attempt came to, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The outcome.
    pub outcome: String,
    /// The class of what went wrong.
    pub failure: Option<String>,
    /// What went wrong, for a person.
    pub error: Option<String>,
}

/// What came of one attempt.
#[derive(Debug)]
pub struct Attempt {
    /// What the log says.
    pub told: Told,
    /// The visibility that was set, in seconds.
    pub delay: Option<i64>,
    /// How long the whole invocation took.
    pub took: Duration,
}

impl Told {
    /// The delivery has arrived.
    #[must_use]
    pub fn delivered() -> Self {
        Self {
            outcome: "delivered".to_owned(),
            failure: None,
            error: None,
        }
    }

    /// The guard has refused it.
    #[must_use]
    pub fn blocked(error: &str) -> Self {
        Self::wrong("blocked", "blocked", error)
    }

    /// It failed and is tried again.
    #[must_use]
    pub fn retry(failure: &str, error: &str) -> Self {
        Self::wrong("retry", failure, error)
    }

    fn wrong(outcome: &str, failure: &str, error: &str) -> Self {
        Self {
            outcome: outcome.to_owned(),
            failure: Some(failure.to_owned()),
            error: Some(error.to_owned()),
        }
    }
}

impl Production {
    /// What a partner's server proves to be `partner.example`, and any name below it, with.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let names = ["partner.example", "*.partner.example"];
        self.authority.issue(&names, Validity::Now)
    }

    /// A function, and a subscription to a partner's name.
    pub async fn subscribed(&self, deliver: &str) -> Environment {
        self.stage
            .subscribe("kasse-nord", "https://partner.example/hook");
        self.stage.start(deliver).await
    }

    /// Starts everything but the function.
    pub async fn start() -> Self {
        let authority = Authority::new("Test Root");
        let file = network::file("authority.pem", &authority.pem());
        let stage = Stage::for_deliver()
            .await
            .without("ALLOW_PRIVATE_ENDPOINTS")
            .with("EXTRA_CA_FILE", file.to_str().unwrap());
        Self {
            stage,
            dns: Dns::start().await,
            authority,
            forbidden: Forbidden::listen().await,
        }
    }

    /// Makes attempt number `attempt` of the delivery to a subscriber, whose subscription must be
    /// there.
    pub async fn attempt(&self, deliver: &Environment, subscriber: &str, attempt: u32) -> Attempt {
        let mut attempts = self.attempts(deliver, &[subscriber], attempt).await;
        attempts.pop().unwrap()
    }

    /// The same for several subscribers, in one batch. Of each that is not delivered, it checks
    /// that it stays in the queue for a visibility of the policy's, that its subscription stays
    /// enabled, and that its record says the same as the log.
    ///
    /// # Panics
    /// If not.
    pub async fn attempts(
        &self,
        deliver: &Environment,
        subscribers: &[&str],
        attempt: u32,
    ) -> Vec<Attempt> {
        let jobs: Vec<Job> = subscribers
            .iter()
            .map(|subscriber| Job::for_subscriber(subscriber))
            .collect();
        let mut records = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            if attempt > 1 {
                self.stage.make_due(job);
            }
            records.push(Record::new(number, &job.text()).received(attempt));
        }
        let batch = self.stage.deliver(deliver, &records).await;
        let mut attempts = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            let told = self.told(deliver, job, attempt).await;
            let delay = batch.delay(number);
            let reported = batch.reported().contains(&format!("m{number}"));
            assert!(self.stage.is_enabled(&job.subscriber_id));
            if told.outcome == "delivered" {
                assert!(!reported && delay.is_none(), "{batch:?}");
            } else {
                assert!(reported, "{batch:?}");
                // 60 s × 3ⁿ, half of it fixed.
                let whole = 60 * 3_i64.pow(attempt - 1);
                batch.assert_delay(number, whole / 2..=whole);
            }
            attempts.push(Attempt {
                told,
                delay,
                took: batch.took,
            });
        }
        attempts
    }

    /// Checks that nothing has arrived where nothing may.
    ///
    /// # Panics
    /// If something has.
    pub async fn assert_nothing_forbidden(&self) {
        self.forbidden.assert_untouched().await;
    }

    async fn told(&self, deliver: &Environment, job: &Job, attempt: u32) -> Told {
        let id = format!(r#""webhookId":"{}""#, job.webhook_id());
        let number = format!(r#""attempt":{attempt},"#);
        let line = deliver
            .line_with(&["delivery.attempted", &id, &number])
            .await;
        let line: Value = serde_json::from_str(&line).unwrap();
        let text = |field: &str| line[field].as_str().map(str::to_owned);
        let told = Told {
            outcome: text("outcome").unwrap(),
            failure: text("failure"),
            error: text("error"),
        };
        let security = (told.outcome == "blocked").then_some("endpoint.blocked");
        assert_eq!(line["security"].as_str(), security, "{line}");
        let record = self.stage.record_of(job);
        let entry = record["history"]["L"].as_array().unwrap().last().unwrap();
        let entry = &entry["M"];
        assert_eq!(entry["outcome"]["S"], told.outcome.as_str(), "{record}");
        let error = told.failure.as_ref().zip(told.error.as_ref());
        let error = error.map(|(failure, error)| format!("{failure}: {error}"));
        assert_eq!(entry["error"]["S"].as_str(), error.as_deref(), "{record}");
        told
    }
}
