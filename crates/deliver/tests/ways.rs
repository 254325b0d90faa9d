//! The way to a partner: over whichever of its addresses there is one, to its own port, past every
//! proxy, and no further than to where the url says. All of it in a network of its own, with the
//! function as it runs in production.

use std::time::Duration;

use e2e::network::{
    ABSENT, ABSENT_IPV6, PUBLIC, PUBLIC_IPV6, PUBLIC_TOO, Unresponsive, assert_untouched, within,
};
use e2e::production::{Production, Told};
use e2e::tls::{Partner, Play};
use tokio::net::TcpListener;

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

const PRIVATE: &str = "10.0.0.5 is not a public address: it is a private network";

#[test]
fn a_name_with_an_ipv6_address_to_which_there_is_no_way_is_delivered_over_ipv4_at_once() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        world.dns.name("partner.example", &[ABSENT_IPV6, PUBLIC]);
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        assert!(attempt.took < Duration::from_secs(2), "{attempt:?}");
        assert_eq!(partner.requests(), 1);
    });
}

#[test]
fn a_name_whose_ipv6_address_never_answers_is_delivered_over_ipv4_soon() {
    within(|| async {
        let world = Production::start().await;
        let _unresponsive = Unresponsive::listen(PUBLIC_IPV6).await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        world.dns.name("partner.example", &[PUBLIC_IPV6, PUBLIC]);
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        assert!(attempt.took < Duration::from_secs(3), "{attempt:?}");
        assert_eq!(partner.requests(), 1);
    });
}

#[test]
fn an_address_that_never_answers_leaves_time_for_the_next_one() {
    within(|| async {
        let world = Production::start().await;
        let _unresponsive = Unresponsive::listen(PUBLIC_TOO).await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        world.dns.name("partner.example", &[PUBLIC_TOO, PUBLIC]);
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        assert_eq!(partner.requests(), 1);
    });
}

#[test]
fn a_server_that_never_answers_is_given_up_within_the_time_for_connecting() {
    within(|| async {
        let world = Production::start().await;
        let _unresponsive = Unresponsive::listen(PUBLIC).await;
        world.dns.name("partner.example", &[PUBLIC]);
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        let late = "connecting to the server took longer than 5000 ms";
        assert_eq!(attempt.told, Told::retry("connect", late));
        let limits = Duration::from_secs(5)..Duration::from_secs(7);
        assert!(limits.contains(&attempt.took), "{attempt:?}");
    });
}

#[test]
fn a_name_with_several_addresses_is_delivered_to_the_one_that_answers() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC_TOO, &world.identity()).await;
        // No way to the first, nobody at the second.
        world
            .dns
            .name("partner.example", &[ABSENT, PUBLIC, PUBLIC_TOO]);
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        assert_eq!(partner.requests(), 1);
    });
}

#[test]
fn a_name_with_ipv6_only_is_delivered() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC_IPV6, &world.identity()).await;
        world.dns.name("partner.example", &[PUBLIC_IPV6]);
        let deliver = world.subscribed(DELIVER).await;

        let attempt = world.attempt(&deliver, "kasse-nord", 1).await;

        assert_eq!(attempt.told, Told::delivered());
        assert_eq!(partner.requests(), 1);
    });
}

#[test]
fn an_address_without_a_way_or_a_listener_is_a_failed_connection() {
    within(|| async {
        let world = Production::start().await;
        world.dns.name("absent.example", &[ABSENT]);
        world.stage.subscribe("absent", "https://absent.example/");
        world.dns.name("partner.example", &[PUBLIC]);
        let deliver = world.subscribed(DELIVER).await;

        let subscribers = ["absent", "kasse-nord"];
        let attempts = world.attempts(&deliver, &subscribers, 1).await;

        let told: Vec<Told> = attempts.into_iter().map(|attempt| attempt.told).collect();
        assert_eq!(
            told,
            [
                Told::retry("connect", "there is no way to the server's address"),
                Told::retry("connect", "the server refuses connections"),
            ]
        );
    });
}

#[test]
fn a_proxy_of_the_environment_is_never_asked() {
    within(|| async {
        let mut world = Production::start().await;
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = proxy.local_addr().unwrap();
        for name in ["http_proxy", "https_proxy", "all_proxy"] {
            for scheme in ["http", "socks5"] {
                let name = if scheme == "http" {
                    name.to_uppercase()
                } else {
                    name.to_owned()
                };
                world.stage = world.stage.with(&name, &format!("{scheme}://{address}"));
            }
        }
        // The played services are asked without a proxy.
        world.stage = world.stage.with("NO_PROXY", "127.0.0.1");
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        world.dns.name("partner.example", &[PUBLIC]);
        world.dns.name("private.example", &["10.0.0.5"]);
        world.stage.subscribe("private", "https://private.example/");
        let deliver = world.subscribed(DELIVER).await;

        let subscribers = ["kasse-nord", "private"];
        let attempts = world.attempts(&deliver, &subscribers, 1).await;

        assert_eq!(attempts[0].told, Told::delivered());
        assert_eq!(attempts[1].told, Told::blocked(PRIVATE));
        assert_eq!(partner.requests(), 1);
        assert_untouched(&proxy).await;
        world.assert_nothing_forbidden().await;
    });
}

#[test]
fn every_name_that_a_host_can_have_is_delivered_to() {
    within(|| async {
        let world = Production::start().await;
        let partner = Partner::good(PUBLIC, &world.identity()).await;
        let longest = "a".repeat(63);
        let cases = [
            ("plain", "a", "a"),
            ("digit", "1", "1"),
            ("hex", "0x7f", "0x7f"),
            ("inner", "a_b", "a_b"),
            ("outer", "_a", "_a"),
            ("hyphens", "a--b", "a--b"),
            ("unicode", "fußball", "xn--fuball-cta"),
            ("longest", &longest, &longest),
        ];
        for (name, written, label) in cases {
            world
                .dns
                .name(&format!("{label}.partner.example"), &[PUBLIC]);
            let url = format!("https://{written}.partner.example/");
            world.stage.subscribe(name, &url);
        }
        let deliver = world.stage.start(DELIVER).await;

        let names = cases.map(|(name, ..)| name);
        let attempts = world.attempts(&deliver, &names, 1).await;

        for (attempt, name) in attempts.iter().zip(names) {
            assert_eq!(attempt.told, Told::delivered(), "{name}");
        }
        assert_eq!(partner.requests(), cases.len());
    });
}

#[test]
fn a_redirect_is_not_followed() {
    within(|| async {
        let world = Production::start().await;
        let mut partners = Vec::new();
        let cases = [
            (
                "s307",
                PUBLIC,
                307,
                "https://169.254.169.254/latest/meta-data/",
            ),
            (
                "s302",
                PUBLIC_TOO,
                302,
                "http://169.254.169.254/latest/meta-data/",
            ),
            ("s308", PUBLIC_IPV6, 308, "//10.0.0.5/"),
        ];
        for (name, address, status, location) in cases {
            let host = format!("{name}.partner.example");
            let answer = format!(
                "HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n"
            );
            let play = Play::Answer(answer.into());
            partners.push(Partner::listen(address, &world.identity(), play).await);
            world.dns.name(&host, &[address]);
            world.stage.subscribe(name, &format!("https://{host}/"));
        }
        let deliver = world.stage.start(DELIVER).await;

        let names = cases.map(|(name, ..)| name);
        let attempts = world.attempts(&deliver, &names, 1).await;

        for (attempt, partner) in attempts.iter().zip(&partners) {
            assert_eq!(attempt.told.outcome, "retry");
            assert_eq!(attempt.told.failure.as_deref(), Some("status"));
            assert_eq!(partner.requests(), 1);
        }
        world.assert_nothing_forbidden().await;
    });
}
