use super::*;

/// Shortest and longest delay after each attempt but the last.
fn delays(policy: &RetryPolicy) -> (Vec<u32>, Vec<u32>) {
    let policy = policy.clone().for_visibility_timeout(180);
    (1..policy.attempts.min(12))
        .map(|n| {
            (
                policy.backoff_seconds(n, 0.0),
                policy.backoff_seconds(n, 1.0),
            )
        })
        .unzip()
}

#[test]
fn the_standard_schedule_is_the_published_one() {
    let policy = RetryPolicy::standard();
    let (shortest, longest) = delays(&policy);
    assert_eq!(longest, [60, 180, 540, 1620, 4860, 14_580, 21_600]);
    assert_eq!(shortest, [30, 90, 270, 810, 2430, 7290, 10_800]);
    assert_eq!(policy.attempts, 8);
    assert_eq!(policy.timeout, Duration::from_secs(10));
}

#[test]
fn the_bounded_schedule_is_the_published_one() {
    let policy = RetryPolicy::bounded();
    let (shortest, longest) = delays(&policy);
    assert_eq!(longest, [30, 60, 120, 240, 480, 960, 1920]);
    assert_eq!(shortest, [15, 30, 60, 120, 240, 480, 960]);
    assert_eq!(policy.backoff_seconds(30, 1.0), 21_600);
    assert_eq!(policy.attempts, 8);
    assert_eq!(policy.timeout, Duration::from_secs(10));
    assert_eq!(policy.longest_retry_after_seconds(), 21_600);
}

#[test]
fn the_contract_has_eleven_attempts_in_72_hours_however_the_jitter_falls() {
    let policy = RetryPolicy::contract_72h();
    let (shortest, longest) = delays(&policy);
    assert_eq!(longest[..5], [32, 315, 1890, 7560, 22_680]);
    assert_eq!(longest[5..], [42_960; 5]);
    assert_eq!(shortest[..5], [29, 285, 1710, 6840, 20_520]);
    assert_eq!(shortest[5..], [41_040; 5]);
    let horizon = u32::try_from(policy.longest_run_seconds()).unwrap();
    assert_eq!(horizon, 259_200);
    assert!(longest.iter().sum::<u32>() < horizon);
    assert!(
        shortest.iter().sum::<u32>() + 41_040 > horizon,
        "no twelfth"
    );
    assert_eq!(policy.timeout, Duration::from_secs(8));
}

#[test]
fn the_payments_schedule_is_the_published_one() {
    let policy = RetryPolicy::payments_24h();
    let (shortest, longest) = delays(&policy);
    let doubled = [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600];
    assert_eq!(longest, doubled);
    assert_eq!(shortest, [1; 11]);
    assert_eq!(policy.longest_run_seconds(), 24 * 3600);
    let mean: u32 = (1..100).map(|n| policy.backoff_seconds(n, 0.5)).sum();
    assert!(mean > 24 * 3600 * 18 / 10, "the horizon ends it: {mean} s");
}

#[test]
fn each_policy_treats_a_status_as_published() {
    use Treatment::{AtMost, Dead, Retry};
    for (status, bounded, contract, payments) in [
        (302, Dead, Retry, Retry),
        (400, Dead, AtMost(3), Dead),
        (401, Dead, AtMost(3), Dead),
        (402, Dead, Retry, Retry),
        (403, Dead, AtMost(3), Dead),
        (404, Dead, AtMost(3), Retry),
        (408, Retry, Retry, Retry),
        (409, Dead, Retry, Retry),
        (422, Dead, Retry, Dead),
        (425, Retry, Retry, Retry),
        (429, Retry, Retry, Retry),
        (499, Dead, Retry, Retry),
        (500, Retry, Retry, Retry),
        (599, Retry, Retry, Retry),
        (600, Dead, Retry, Retry),
        (101, Dead, Retry, Retry),
    ] {
        let of = |name| {
            let policy = RetryPolicy::by_name(name).unwrap();
            policy.treatment(Failure::Status(status))
        };
        assert_eq!(of("standard"), Retry, "{status}");
        assert_eq!(of("bounded"), bounded, "{status}");
        assert_eq!(of("contract-72h"), contract, "{status}");
        assert_eq!(of("payments-24h"), payments, "{status}");
    }
    for name in NAMES {
        let policy = RetryPolicy::by_name(name).unwrap();
        assert_eq!(policy.treatment(Failure::Timeout), Retry);
        assert_eq!(policy.treatment(Failure::Tls), Retry);
    }
}

#[test]
fn any_attempt_number_gives_a_delay_within_bounds() {
    let policy = RetryPolicy::standard();
    for attempt in [0, 1] {
        assert_eq!(policy.backoff_seconds(attempt, 1.0), 60, "{attempt}");
    }
    for attempt in [31, 32, 64, 1000, u32::MAX] {
        assert_eq!(policy.backoff_seconds(attempt, 1.0), 21_600, "{attempt}");
    }
    for jitter in [f64::NAN, -1.0, 2.0, f64::INFINITY] {
        assert!(
            (1..=60).contains(&policy.backoff_seconds(1, jitter)),
            "{jitter}"
        );
    }
}

#[test]
fn the_queues_visibility_timeout_lowers_the_ceiling() {
    let policy = RetryPolicy::standard().for_visibility_timeout(180);
    assert_eq!(policy.longest_delay_seconds, 42_960);
    assert_eq!(
        RetryPolicy::standard()
            .for_visibility_timeout(u32::MAX)
            .longest_delay_seconds,
        1
    );
}

#[test]
fn a_schedule_longer_than_sqs_can_keep_is_known_to_be() {
    let contract = RetryPolicy::contract_72h().for_visibility_timeout(180);
    assert!(!contract.is_clamped(5));
    assert!(contract.is_clamped(6));
    assert!(
        !RetryPolicy::standard()
            .for_visibility_timeout(180)
            .is_clamped(99)
    );
    let scaled = contract.with_time_scale(0.5);
    assert!(!scaled.is_clamped(6));
    assert_eq!(scaled.planned_seconds(6).to_bits(), 21_600_f64.to_bits());
}

#[test]
fn a_policy_is_made_of_all_that_a_stack_says() {
    let policy = RetryPolicy::contract_72h;
    let published = Configuration {
        policy: policy(),
        time_scale: 1.0,
        visibility_timeout_seconds: VISIBILITY_TIMEOUT_SECONDS,
        attempt_timeout_seconds: None,
        overrides: Overrides::default(),
        receives: None,
    };
    assert_eq!(
        RetryPolicy::configured(published.clone()),
        Ok(policy().for_visibility_timeout(180))
    );
    let overrides = Overrides {
        attempts: Some(12),
        ..Overrides::default()
    };
    let configuration = Configuration {
        time_scale: 0.5,
        visibility_timeout_seconds: 30,
        attempt_timeout_seconds: Some(3),
        overrides,
        receives: Some(42),
        ..published.clone()
    };
    assert_eq!(
        RetryPolicy::configured(configuration),
        Ok(RetryPolicy {
            time_scale: 0.5,
            longest_delay_seconds: 43_110,
            timeout: Duration::from_secs(3),
            attempts: 12,
            ..policy()
        })
    );
    let not_longer = Configuration {
        attempt_timeout_seconds: Some(10),
        ..published.clone()
    };
    assert_eq!(
        RetryPolicy::configured(not_longer).unwrap().timeout,
        Duration::from_secs(8)
    );
    let too_many = Configuration {
        overrides,
        ..published
    };
    assert_eq!(
        RetryPolicy::configured(too_many),
        Err(OverrideError::TooManyAttempts {
            attempts: 12,
            receives: 41,
        })
    );
}

#[test]
fn a_time_scale_stretches_the_schedule_and_keeps_a_second_as_the_least() {
    let policy = RetryPolicy::standard().with_time_scale(0.01);
    let delays: Vec<u32> = (1..=7).map(|n| policy.backoff_seconds(n, 1.0)).collect();
    assert_eq!(delays, [1, 2, 6, 17, 49, 146, 216]);
    assert_eq!(policy.longest_run_seconds(), 84 * 3600);
    let contract = RetryPolicy::contract_72h().with_time_scale(0.01);
    assert_eq!(contract.longest_run_seconds(), 2592);
}

#[test]
fn faults_of_ours_come_back_soon_and_their_spare_receives_last_for_days() {
    let policy = RetryPolicy::standard();
    let delays: Vec<u32> = (0..9).map(|k| policy.fault_delay_seconds(k, 1.0)).collect();
    assert_eq!(delays, [5, 15, 45, 135, 405, 1215, 3645, 10_800, 10_800]);
    assert_eq!(policy.fault_delay_seconds(0, 0.0), 3);
    assert_eq!(policy.fault_delay_seconds(u32::MAX, 1.0), 10_800);
    assert_eq!(policy.longest_faults_seconds(), 253_865);
}

#[test]
fn an_operator_can_change_what_sqs_allows_for() {
    let policy = || RetryPolicy::standard().for_visibility_timeout(180);
    let changed = policy()
        .with_overrides(
            Overrides {
                base_seconds: Some(10),
                factor: Some(2),
                cap_seconds: Some(100),
                attempts: Some(5),
            },
            None,
        )
        .unwrap();
    let delays: Vec<u32> = (1..=5).map(|n| changed.backoff_seconds(n, 1.0)).collect();
    assert_eq!(delays, [10, 20, 40, 80, 100]);
    assert_eq!(changed.attempts, 5);
    assert_eq!(
        policy().with_overrides(Overrides::default(), None),
        Ok(policy())
    );
    let more = Overrides {
        attempts: Some(20),
        ..Overrides::default()
    };
    assert_eq!(
        policy().with_overrides(more, Some(50)).unwrap().attempts,
        20
    );
}

#[test]
fn an_override_that_sqs_does_not_allow_for_says_why() {
    let none = Overrides::default();
    for (policy, overrides, receives, message) in [
        (
            "contract-72h",
            Overrides {
                cap_seconds: Some(100),
                ..none
            },
            None,
            "the policy contract-72h has a fixed table of delays: base, factor and cap can not be changed",
        ),
        (
            "standard",
            Overrides {
                base_seconds: Some(30_000),
                ..none
            },
            None,
            "the base of 30000 s is longer than the cap of 21600 s",
        ),
        (
            "bounded",
            Overrides {
                cap_seconds: Some(43_200),
                ..none
            },
            None,
            "a cap of 43200 s is longer than the 42960 s that this queue can hide a message",
        ),
        (
            "standard",
            Overrides {
                attempts: Some(9),
                ..none
            },
            None,
            "9 attempts and 30 spare receives are more than the queue's maxReceiveCount of 38",
        ),
        (
            "standard",
            Overrides {
                attempts: Some(u32::MAX),
                ..none
            },
            Some(u32::MAX),
            "4294967295 attempts and 30 spare receives are more than the queue's maxReceiveCount of 1000",
        ),
        (
            "payments-24h",
            none,
            Some(100),
            "100 attempts and 30 spare receives are more than the queue's maxReceiveCount of 100",
        ),
    ] {
        let policy = RetryPolicy::by_name(policy)
            .unwrap()
            .for_visibility_timeout(180);
        let error = policy.with_overrides(overrides, receives).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn every_published_name_has_its_policy() {
    for name in NAMES {
        assert_eq!(RetryPolicy::by_name(name).unwrap().name, name);
    }
    assert_eq!(RetryPolicy::by_name("Standard"), None);
}
