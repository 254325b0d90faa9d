//! Urls as an attacker writes them. What matters is that the one reading that is judged is the one
//! that is called: each is either refused, or goes to the public host that stands beside it.

#![expect(
    clippy::unwrap_used,
    reason = "a table with a mistake stops the test where it stands"
)]

use std::net::IpAddr;

use webhooks_core::address;
use webhooks_core::endpoint::{EndpointError, EndpointRules};

const PRODUCTION: EndpointRules = EndpointRules {
    allow_private: false,
};

/// What becomes of a url.
enum Judgement {
    /// It is called in this form.
    To(&'static str),
    NotAUrl,
    UserInfo,
    Scheme(&'static str),
    Port(u16),
    /// This name is not a public one.
    Name(&'static str),
    /// This address is not a public one.
    Address(&'static str),
}

use Judgement::{Address, Name, NotAUrl, Port, Scheme, To, UserInfo};

fn assert_judged<const N: usize>(cases: [(&str, Judgement); N]) {
    for (url, judgement) in cases {
        let judged = PRODUCTION.judge_url(url).map(String::from);
        let expected = match judgement {
            To(form) => Ok(form.to_owned()),
            NotAUrl => Err(EndpointError::NotAUrl),
            UserInfo => Err(EndpointError::UserInfo),
            Scheme(scheme) => Err(EndpointError::Scheme(scheme.to_owned())),
            Port(port) => Err(EndpointError::Port(port)),
            Name(name) => Err(EndpointError::Name(name.to_owned())),
            Address(address) => {
                let address: IpAddr = address.parse().unwrap();
                Err(address::judge(address).unwrap_err().into())
            }
        };
        assert_eq!(judged, expected, "{url:?}");
    }
}

#[test]
fn slashes_white_space_and_backslashes_do_not_hide_a_host() {
    assert_judged([
        ("https:/example.com", To("https://example.com/")),
        ("https:example.com", To("https://example.com/")),
        ("https:///example.com/", To("https://example.com/")),
        ("https:\\\\example.com\\x", To("https://example.com/x")),
        (
            "https://example.com\\@10.0.0.5/",
            To("https://example.com/@10.0.0.5/"),
        ),
        ("https://10.0.0.5\\@example.com/", Address("10.0.0.5")),
        ("https://example.com#@10.0.0.5/", To("https://example.com/")),
        (
            "https://example.com?@10.0.0.5/",
            To("https://example.com/?@10.0.0.5/"),
        ),
        ("https://10.0.0.5#@example.com/", Address("10.0.0.5")),
        ("https://10.0.0.5?x=example.com", Address("10.0.0.5")),
        ("\t https://example.com/ \n", To("https://example.com/")),
        ("ht\ntps://exa\tmple.com/\r\nx", To("https://example.com/x")),
        ("https://10.0\t.0.5/", Address("10.0.0.5")),
        ("https://example.com\0.evil.org/", NotAUrl),
        ("https://example.com/\0", To("https://example.com/")),
        ("https://exam\0ple.com", NotAUrl),
    ]);
}

#[test]
fn an_escape_in_a_host_is_decoded_before_it_is_judged() {
    assert_judged([
        ("https://example.com%00.evil.org/", NotAUrl),
        ("https://example.com%2e/", To("https://example.com./")),
        ("https://10.0.0%2e5/", Address("10.0.0.5")),
        ("https://%6c%6f%63%61%6c%68%6f%73%74/", Name("localhost")),
        (
            "https://localhost%2eexample.com/",
            To("https://localhost.example.com/"),
        ),
        ("https://example.com%2f@10.0.0.5/", UserInfo),
        ("https://example.com%40evil.org/", NotAUrl),
        ("https://example.com%3a22/", NotAUrl),
        ("https://ex%61mple.com/", To("https://example.com/")),
        (
            "https://%E2%91%A0%E2%91%A1%E2%91%A6.0.0.1/",
            Address("127.0.0.1"),
        ),
    ]);
}

#[test]
fn brackets_hold_an_ipv6_address_and_nothing_else() {
    assert_judged([
        ("https://[fe80::1%25eth0]/", NotAUrl),
        ("https://[fe80::1%eth0]/", NotAUrl),
        ("https://[::1%251]/", NotAUrl),
        ("https://[::ffff:7f00:1]:443/", Address("::ffff:127.0.0.1")),
        (
            "https://[0:0:0:0:0:ffff:127.0.0.1]/",
            Address("::ffff:127.0.0.1"),
        ),
        ("https://[::ffff:127.1]/", NotAUrl),
        ("https://[::ffff:0177.0.0.1]/", NotAUrl),
        ("https://[1::2::3]/", NotAUrl),
        ("https://[::1", NotAUrl),
        ("https://::1/", NotAUrl),
        ("https://[127.0.0.1]/", NotAUrl),
        ("https://[v1.fe80::1]/", NotAUrl),
    ]);
}

#[test]
fn a_port_is_a_number_and_an_allowed_one() {
    assert_judged([
        ("https://example.com:0443/", To("https://example.com/")),
        (
            "https://example.com:00000000443/",
            To("https://example.com/"),
        ),
        ("https://example.com:00022/", Port(22)),
        ("https://example.com:/", To("https://example.com/")),
        ("https://example.com:+443/", NotAUrl),
        ("https://example.com: 443/", NotAUrl),
        ("https://example.com:４４３/", NotAUrl),
        ("https://example.com:443:443/", NotAUrl),
        ("https://example.com:0x1bb/", NotAUrl),
        ("https://example.com:-1/", NotAUrl),
        ("https://example.com:99999999999/", NotAUrl),
        ("https://example.com:1023/", Port(1023)),
        ("https://example.com:1024/", To("https://example.com:1024/")),
        (
            "https://example.com:65535/",
            To("https://example.com:65535/"),
        ),
        ("https://example.com:6379/", To("https://example.com:6379/")),
        ("https://example.com:9001/", To("https://example.com:9001/")),
    ]);
}

#[test]
fn letters_that_look_like_others_are_judged_as_those() {
    assert_judged([
        ("https://example。com/", To("https://example.com/")),
        ("https://example．com/", To("https://example.com/")),
        ("https://example｡com/", To("https://example.com/")),
        ("https://10。0。0。5/", Address("10.0.0.5")),
        ("https://10．0．0．5/", Address("10.0.0.5")),
        ("https://１０.０.０.５/", Address("10.0.0.5")),
        ("https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", Name("localhost")),
        ("https://ｌｏｃａｌｈｏｓｔ/", Name("localhost")),
        ("https://local\u{ad}host/", Name("localhost")),
        ("https://lo\u{200b}calhost/", Name("localhost")),
        ("https://lo\u{200d}calhost/", NotAUrl),
        ("https://metadata。goog/", Name("metadata.goog")),
        ("https://Metadata.GOOG/", Name("metadata.goog")),
        ("https://x.metadata.goog/", Name("x.metadata.goog")),
        ("https://metadata.goog./", Name("metadata.goog.")),
        (
            "https://fußball.example.com/",
            To("https://xn--fuball-cta.example.com/"),
        ),
        (
            "https://xn--fuball-cta.example.com/",
            To("https://xn--fuball-cta.example.com/"),
        ),
        ("https://xn--/", NotAUrl),
        ("https://xn--a.example.com/", NotAUrl),
        ("https://xn--localhost-.example.com/", NotAUrl),
        (
            "https://xn--80ak6aa92e.com/",
            To("https://xn--80ak6aa92e.com/"),
        ),
        ("https://аррӏе.com/", To("https://xn--80ak6aa92e.com/")),
        ("https://\u{202e}moc.example/", NotAUrl),
        ("https://℀.example.com/", NotAUrl),
        ("https://℡.example.com/", To("https://tel.example.com/")),
        ("https://a℁b.example.com/", NotAUrl),
        ("https://K.example.com/", To("https://k.example.com/")),
        ("https://faß.de/", To("https://xn--fa-hia.de/")),
    ]);
}

#[test]
fn numbers_are_addresses_in_every_base_and_length() {
    assert_judged([
        ("https://0x7f.0.0.1/", Address("127.0.0.1")),
        ("https://0X7F.1/", Address("127.0.0.1")),
        ("https://0x.0x.0/", Address("0.0.0.0")),
        ("https://0x7f.0.0.0x1/", Address("127.0.0.1")),
        ("https://00000177.0.0.1/", Address("127.0.0.1")),
        ("https://127.0.0.0x1/", Address("127.0.0.1")),
        ("https://127.00.00.01/", Address("127.0.0.1")),
        ("https://1.0x7f.example/", To("https://1.0x7f.example/")),
        (
            "https://0x7f.0.0.1.example.com/",
            To("https://0x7f.0.0.1.example.com/"),
        ),
        (
            "https://127.0.0.1.example.com/",
            To("https://127.0.0.1.example.com/"),
        ),
        ("https://example.com.0x7f/", NotAUrl),
        ("https://example.1/", NotAUrl),
        ("https://example.0x/", NotAUrl),
        ("https://example.08/", NotAUrl),
        ("https://09.0.0.1/", NotAUrl),
        ("https://4294967295/", Address("255.255.255.255")),
        ("https://4294967296/", NotAUrl),
        ("https://1.16777215/", To("https://1.255.255.255/")),
        ("https://1.16777216/", NotAUrl),
        ("https://-1/", Name("-1")),
        ("https://127.0.0.1../", Name("127.0.0.1..")),
        ("https://127..0.1/", NotAUrl),
        ("https://.127.0.0.1/", NotAUrl),
        ("https://0xffffffff/", Address("255.255.255.255")),
        ("https://017700000001/", Address("127.0.0.1")),
        ("https://0x00000000000000007f000001/", Address("127.0.0.1")),
    ]);
}

#[test]
fn a_host_has_labels_and_no_user() {
    assert_judged([
        ("https://example..com/", Name("example..com")),
        ("https://.example.com/", Name(".example.com")),
        ("https://example.com../", Name("example.com..")),
        ("https://./", Name(".")),
        ("https://../", Name("..")),
        ("https://%2e/", Name(".")),
        ("https:///", NotAUrl),
        ("https://", NotAUrl),
        ("https://#", NotAUrl),
        ("https://?x", NotAUrl),
        ("https://:443/", NotAUrl),
        ("https://@/", NotAUrl),
        ("https://user@/", NotAUrl),
        ("https://:@example.com/", To("https://example.com/")),
        ("https://:pw@example.com/", UserInfo),
        ("https://u:@example.com/", UserInfo),
        ("https://@@example.com/", UserInfo),
        ("https://example.com:443@10.0.0.5/", UserInfo),
        ("https://a@b@c.example/", UserInfo),
    ]);
}

#[test]
fn a_host_has_letters_digits_hyphens_and_underscores() {
    assert_judged([
        ("https://-example.com/", Name("-example.com")),
        ("https://example-.com/", Name("example-.com")),
        ("https://ex_ample.com/", To("https://ex_ample.com/")),
        (
            "https://_dmarc.example.com/",
            To("https://_dmarc.example.com/"),
        ),
        ("https://exam!ple.com/", Name("exam!ple.com")),
        ("https://ex$(id).example.com/", Name("ex$(id).example.com")),
        ("https://ex'ample.com/", Name("ex'ample.com")),
        ("https://ex\"ample.com/", Name("ex\"ample.com")),
        ("https://ex`ample.com/", Name("ex`ample.com")),
        ("https://ex{a}.example.com/", Name("ex{a}.example.com")),
        ("https://ex,a.example.com/", Name("ex,a.example.com")),
        ("https://ex;a.example.com/", Name("ex;a.example.com")),
        ("https://ex=a.example.com/", Name("ex=a.example.com")),
        ("https://ex&a.example.com/", Name("ex&a.example.com")),
        ("https://ex~a.example.com/", Name("ex~a.example.com")),
        ("https://*.example.com/", Name("*.example.com")),
        ("https://ex<a.example.com/", NotAUrl),
        ("https://ex^a.example.com/", NotAUrl),
        ("https://ex|a.example.com/", NotAUrl),
        ("https://exa mple.com/", NotAUrl),
        ("https://ex+a.example.com/", Name("ex+a.example.com")),
    ]);
}

#[test]
fn no_other_scheme_is_taken_for_https() {
    assert_judged([
        ("HTTPS://example.com/", To("https://example.com/")),
        ("hTTpS://EXAMPLE.com/", To("https://example.com/")),
        ("httpsx://example.com/", Scheme("httpsx")),
        ("https+unix://example.com/", Scheme("https+unix")),
        ("blob:https://example.com/x", Scheme("blob")),
        ("javascript:alert(1)", Scheme("javascript")),
        ("data:,x", Scheme("data")),
        ("view-source:https://example.com/", Scheme("view-source")),
        ("ws://example.com/", Scheme("ws")),
        ("wss://example.com/", Scheme("wss")),
        ("gopher://example.com/", Scheme("gopher")),
        ("unix:/var/run/x", Scheme("unix")),
        ("\u{feff}https://example.com/", NotAUrl),
        ("https：//example.com/", NotAUrl),
    ]);
}

#[test]
fn names_of_networks_of_ones_own_are_no_public_ones() {
    assert_judged([
        ("https://nas.lan/", Name("nas.lan")),
        ("https://wiki.corp/", Name("wiki.corp")),
        ("https://x.home/", Name("x.home")),
        ("https://x.private/", Name("x.private")),
        (
            "https://1.0.0.127.in-addr.arpa/",
            Name("1.0.0.127.in-addr.arpa"),
        ),
        ("https://ipv4only.arpa/", Name("ipv4only.arpa")),
        ("https://x.onion/", Name("x.onion")),
        ("https://x.alt/", Name("x.alt")),
        ("https://x.invalid/", Name("x.invalid")),
        (
            "https://localhost.localdomain/",
            Name("localhost.localdomain"),
        ),
        (
            "https://instance-data.ec2.internal/",
            Name("instance-data.ec2.internal"),
        ),
        ("https://example.test/", Name("example.test")),
        ("https://corp.example.com/", To("https://corp.example.com/")),
        ("https://thelocal.se/", To("https://thelocal.se/")),
        ("https://home.example.org/", To("https://home.example.org/")),
        (
            "https://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com/",
            Name("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com"),
        ),
    ]);
}

#[test]
fn a_name_is_no_longer_than_dns_allows_and_is_told_in_short() {
    let host = |label: &str, count| format!("{}example.com", label.repeat(count));
    let longest = host("a.", 121);
    assert_eq!(longest.len(), 253);
    let label = "a".repeat(63);
    for name in [longest, format!("{label}.example.com")] {
        assert!(PRODUCTION.judge_url(&format!("https://{name}/")).is_ok());
        assert!(PRODUCTION.judge_url(&format!("https://{name}./")).is_ok());
    }
    let beginning = "a.".repeat(50);
    for (name, told) in [
        (host("a.", 122), format!("{beginning}…")),
        (host("a.", 100_000), format!("{beginning}…")),
        (
            format!("a{label}.example.com"),
            format!("a{label}.example.com"),
        ),
    ] {
        let judged = PRODUCTION.judge_url(&format!("https://{name}/"));
        assert_eq!(judged, Err(EndpointError::Name(told)));
    }
    let scheme = "a".repeat(200);
    assert_eq!(
        PRODUCTION.judge_url(&format!("{scheme}://x/")),
        Err(EndpointError::Scheme(format!("{}…", "a".repeat(100))))
    );
}
