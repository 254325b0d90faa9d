//! What a partner's name stands for decides where a webhook goes: asked once for each attempt,
//! judged as a whole, and nothing but what was judged is connected to. All of it in a network of
//! its own, with the function as it runs in production.

use std::time::Duration;

use e2e::dns::{Kind, Reply};
use e2e::network::{PUBLIC, PUBLIC_IPV6, PUBLIC_TOO, set_patience_with_resolver, within};
use e2e::production::{Production, Told};
use e2e::tls::{Partner, Play};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const PRIVATE: &str = "10.0.0.5 is not a public address: it is a private network";
const LOOPBACK: &str = "::1 is not a public address: it is this machine";
const METADATA: &str = "is not a public address: it is link-local, with the cloud's metadata and the \
                        Lambda runtime";

#[test]
fn a_name_that_turns_private_after_its_first_attempt_is_blocked_at_the_second() {
    within(|| async {
        let world = Production::start().await;
        let play = Play::Answer(b"HTTP/1.1 500 No\r\nconnection: close\r\n\r\n".to_vec());
        let partner = Partner::listen(PUBLIC, &world.identity(), play).await;
        let answers = [PUBLIC, "10.0.0.5"].map(|address| Reply::addresses(&[address]));
        world.dns.script("partner.example", Kind::A, answers);
        world
            .dns
            .script("partner.example", Kind::Aaaa, [Reply::Empty]);
        let deliver = world.subscribed(DELIVER).await;

        let first = world.attempt(&deliver, "kasse-nord", 1).await;
        let asked = |kind| world.dns.asked("partner.example", kind);
        assert_eq!([asked(Kind::A), asked(Kind::Aaaa)], [1, 1]);
        let second = world.attempt(&deliver, "kasse-nord", 2).await;

        assert_eq!(first.told.outcome, "retry");
        assert_eq!(first.told.failure.as_deref(), Some("status"));
        assert_eq!(second.told, Told::blocked(PRIVATE));
        assert_eq!([asked(Kind::A), asked(Kind::Aaaa)], [2, 2]);
        assert_eq!(partner.requests(), 1);
        world.assert_nothing_forbidden().await;
    });
}

#[test]
fn a_second_question_within_an_attempt_would_have_got_another_answer_but_there_is_none() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        let answers = [PUBLIC, "169.254.169.254"].map(|address| Reply::addresses(&[address]));
        world.dns.script("partner.example", Kind::A, answers);
        world
            .dns
            .script("partner.example", Kind::Aaaa, [Reply::Empty]);
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        assert_eq!(partner.requests(), 1);
        assert_eq!(world.dns.asked("partner.example", Kind::A), 1);
        assert_eq!(world.dns.asked("partner.example", Kind::Aaaa), 1);
        world.assert_nothing_forbidden().await;
    });
}

#[test]
fn one_forbidden_answer_among_public_ones_blocks_the_attempt_and_nothing_is_sent_anywhere() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        let mapped = format!("::ffff:169.254.169.254 {METADATA} (for 169.254.169.254)");
        let runtime = format!("169.254.100.1 {METADATA}");
        let nat64 =
            "64:ff9b::a00:5 is not a public address: it is a private network (for 10.0.0.5)";
        let local_nat64 =
            "64:ff9b:1::a00:5 is not a public address: it is a private network (for 10.0.0.5)";
        let six_to_four =
            "2002:a00:5::1 is not a public address: it is a private network (for 10.0.0.5)";
        let unspecified = "0.0.0.0 is not a public address: it is this network";
        let cases: [(&[&str], &str); 10] = [
            (&[PUBLIC, "10.0.0.5"], PRIVATE),
            (&["10.0.0.5", PUBLIC], PRIVATE),
            (&[PUBLIC, "::1"], LOOPBACK),
            (&[PUBLIC, "::ffff:169.254.169.254"], &mapped),
            (&["169.254.100.1"], &runtime),
            (&["0.0.0.0"], unspecified),
            (&["64:ff9b::a00:5"], nat64),
            (&["64:ff9b:1::a00:5"], local_nat64),
            (&[PUBLIC_IPV6, "2002:a00:5::1"], six_to_four),
            (&[PUBLIC_IPV6, PUBLIC, PUBLIC_TOO, "::1"], LOOPBACK),
        ];
        let mut names = Vec::new();
        for (number, (addresses, _)) in cases.iter().enumerate() {
            let name = format!("s{number}");
            let host = format!("{name}.example.org");
            world.dns.name(&host, addresses);
            world.stage.subscribe(&name, &format!("https://{host}/"));
            names.push(name);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let deliver = world.stage.start(DELIVER).await;

        let attempts = world.attempts(&deliver, &names, 1).await;

        for (attempt, (addresses, told)) in attempts.iter().zip(cases) {
            assert_eq!(attempt.told, Told::blocked(told), "{addresses:?}");
        }
        assert_eq!(partner.seen().server_names, []);
        world.assert_nothing_forbidden().await;
    });
}

#[test]
fn a_name_that_stands_for_an_internal_one_is_blocked() {
    within(|| async {
        let world = Production::start().await;
        world.dns.name("db.corp.internal", &["10.0.0.5"]);
        world
            .dns
            .both("partner.example", &Reply::Alias("db.corp.internal"));
        world.dns.name("127.0.0.1.nip.io", &["127.0.0.1"]);
        world.stage.subscribe("nip", "https://127.0.0.1.nip.io/");
        world
            .dns
            .name("169-254-169-254.sslip.io", &["169.254.169.254"]);
        world
            .stage
            .subscribe("sslip", "https://169-254-169-254.sslip.io/");
        let deliver = world.subscribed(DELIVER).await;

        let subscribers = ["kasse-nord", "nip", "sslip"];
        let attempts = world.attempts(&deliver, &subscribers, 1).await;

        let told: Vec<Told> = attempts.into_iter().map(|attempt| attempt.told).collect();
        assert_eq!(
            told,
            [
                Told::blocked(PRIVATE),
                Told::blocked("127.0.0.1 is not a public address: it is this machine"),
                Told::blocked(&format!("169.254.169.254 {METADATA}")),
            ]
        );
        world.assert_nothing_forbidden().await;
    });
}

#[test]
fn a_public_alias_is_followed_and_the_certificate_is_for_the_name_in_the_url() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        world.dns.name("edge.cdn.example", &[PUBLIC]);
        world
            .dns
            .both("partner.example", &Reply::Alias("edge.cdn.example"));
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        let seen = partner.seen();
        assert_eq!(seen.server_names, [Some("partner.example".to_owned())]);
    });
}

#[test]
fn a_name_that_can_not_be_resolved_is_retried_as_a_dns_failure_and_never_blocked() {
    within(|| async {
        let world = Production::start().await;
        let unknown = "the host name can not be resolved: Name or service not known";
        let empty = "the host name can not be resolved: No address associated with hostname";
        let later = "the host name can not be resolved: Temporary failure in name resolution";
        let cases = [
            ("nxdomain", Reply::NxDomain, unknown),
            ("empty", Reply::Empty, empty),
            ("servfail", Reply::ServFail, later),
            ("silence", Reply::Silence, later),
        ];
        for (name, reply, _) in &cases {
            let host = format!("{name}.example.org");
            world.dns.both(&host, reply);
            world.stage.subscribe(name, &format!("https://{host}/"));
        }
        let names = cases.each_ref().map(|(name, ..)| *name);
        let deliver = world.stage.start(DELIVER).await;

        for number in [1, 2] {
            let attempts = world.attempts(&deliver, &names, number).await;
            for (attempt, (name, _, told)) in attempts.iter().zip(&cases) {
                assert_eq!(attempt.told, Told::retry("dns", told), "{name}");
            }
        }
        world.assert_nothing_forbidden().await;
    });
}

#[test]
fn a_resolver_that_can_tell_one_kind_of_address_only_is_enough() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        let cases = [
            ("empty", Reply::Empty),
            ("nxdomain", Reply::NxDomain),
            ("servfail", Reply::ServFail),
            ("silence", Reply::Silence),
        ];
        for (name, reply) in &cases {
            let host = format!("{name}.partner.example");
            let ipv4 = Reply::addresses(&[PUBLIC]);
            world.dns.script(&host, Kind::A, [ipv4]);
            world.dns.script(&host, Kind::Aaaa, [reply.clone()]);
            world.stage.subscribe(name, &format!("https://{host}/"));
        }
        let names = cases.each_ref().map(|(name, ..)| *name);
        let deliver = world.stage.start(DELIVER).await;

        let attempts = world.attempts(&deliver, &names, 1).await;

        for (attempt, name) in attempts.iter().zip(names) {
            assert_eq!(attempt.told, Told::delivered(), "{name}");
        }
        assert_eq!(partner.requests(), 4);
    });
}

#[test]
fn a_name_is_whole_and_no_search_domain_of_our_network_completes_it() {
    within(|| async {
        let world = Production::start().await;
        // The network's search domain is corp.example.
        world.dns.name("partner.example.corp.example", &[PUBLIC]);
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        let unknown = "the host name can not be resolved: Name or service not known";
        assert_eq!(attempt.told, Told::retry("dns", unknown));
        assert_eq!(world.dns.names_asked(), ["partner.example"]);
        assert_eq!(partner.seen().server_names, []);
    });
}

#[test]
fn a_resolver_that_never_answers_ends_one_attempt_in_time_and_delays_no_other() {
    within(|| async {
        let world = Production::start().await;
        set_patience_with_resolver(Duration::from_secs(30));
        world.dns.both("silent.example", &Reply::Silence);
        world.stage.subscribe("silent", "https://silent.example/");
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        world.dns.name("partner.example", &[PUBLIC]);
        let deliver = world.subscribed(DELIVER).await;

        let subscribers = ["silent", "kasse-nord"];
        let attempts = world.attempts(&deliver, &subscribers, 1).await;

        let late = "resolving the host name took longer than 5000 ms";
        assert_eq!(attempts[0].told, Told::retry("dns", late));
        let limits = Duration::from_secs(5)..Duration::from_secs(7);
        assert!(limits.contains(&attempts[0].took), "{attempts:?}");
        assert_eq!(attempts[1].told, Told::delivered());
        assert_eq!(partner.requests(), 1);
        let line = deliver
            .line_with(&["delivery.attempted", "kasse-nord"])
            .await;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(line["ms"].as_u64().unwrap() < 2000, "{line}");
    });
}

#[test]
fn a_blocked_endpoint_is_tried_again_by_the_policy_and_keeps_its_subscription() {
    within(|| async {
        let world = Production::start().await;
        world.dns.name("partner.example", &["10.0.0.5"]);
        let deliver = world.subscribed(DELIVER).await;

        // Each checks the delay of its attempt, and that the subscription is enabled.
        for number in 1..=4 {
            let attempt = world.attempt(&deliver, "kasse-nord", number).await;
            assert_eq!(attempt.told, Told::blocked(PRIVATE));
        }
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        world.dns.name("partner.example", &[PUBLIC]);
        let attempt = world.attempt(&deliver, "kasse-nord", 5).await;
        assert_eq!(attempt.told, Told::delivered());
        assert_eq!(partner.requests(), 1);
        world.assert_nothing_forbidden().await;
    });
}
