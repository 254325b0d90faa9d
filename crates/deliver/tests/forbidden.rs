//! Addresses that stand in a url, in all the ways in which they can be written: where one is
//! forbidden nothing is connected to, although this network has every one of them and somebody
//! listens there.

use e2e::network::{FORBIDDEN, within};
use e2e::production::{Production, Told};

const DELIVER: &str = env!("CARGO_BIN_EXE_deliver");

/// What is told of 169.254.0.0/16.
const LINK_LOCAL: &str = "is not a public address: it is link-local, with the cloud's metadata and \
                          the Lambda runtime";

/// Makes an attempt at each of these urls, which are told off by the words beside them.
async fn assert_blocked(world: &Production, cases: &[(String, String)]) {
    let deliver = world.stage.start(DELIVER).await;
    for (chunk, cases) in cases.chunks(10).enumerate() {
        let names: Vec<String> = (0..cases.len()).map(|n| format!("s{chunk}-{n}")).collect();
        for (name, (url, _)) in names.iter().zip(cases) {
            world.stage.subscribe(name, url);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();

        let attempts = world.attempts(&deliver, &names, 1).await;

        for (attempt, (url, told)) in attempts.iter().zip(cases) {
            assert_eq!(attempt.told, Told::blocked(told), "{url}");
        }
    }
    world.assert_nothing_forbidden().await;
    assert_eq!(world.dns.names_asked(), [] as [String; 0]);
}

#[test]
fn no_forbidden_address_is_connected_to_though_somebody_listens_there() {
    within(|| async {
        let world = Production::start().await;
        let private = |address: &str| format!("{address} is not a public address: it is");
        let told = |address: &str| match address {
            "127.0.0.1" | "::1" => format!("{} this machine", private(address)),
            "10.0.0.5" | "172.16.0.1" | "192.168.1.1" => {
                format!("{} a private network", private(address))
            }
            "100.64.0.1" | "100.100.100.200" => {
                format!("{} a carrier's own network", private(address))
            }
            "168.63.129.16" => format!("{} a cloud's metadata", private(address)),
            "169.254.100.1" | "169.254.169.254" => format!("{address} {LINK_LOCAL}"),
            "fd00:ec2::254" => format!(
                "{} a private network, with a cloud's metadata",
                private(address)
            ),
            embedding => format!("{} a private network (for 10.0.0.5)", private(embedding)),
        };
        let cases = FORBIDDEN.map(|address| {
            let host = if address.contains(':') {
                format!("[{address}]")
            } else {
                address.to_owned()
            };
            (format!("https://{host}/"), told(address))
        });
        assert_blocked(&world, &cases).await;
    });
}

#[test]
fn no_spelling_of_a_forbidden_address_is_connected_to() {
    within(|| async {
        let world = Production::start().await;
        let machine = "is not a public address: it is this machine";
        let cases = [
            ("2852039166", format!("169.254.169.254 {LINK_LOCAL}")),
            ("0xa9fea9fe", format!("169.254.169.254 {LINK_LOCAL}")),
            (
                "0xa9.0xfe.0xa9.0xfe",
                format!("169.254.169.254 {LINK_LOCAL}"),
            ),
            (
                "0251.0376.0251.0376",
                format!("169.254.169.254 {LINK_LOCAL}"),
            ),
            ("169.254.43518", format!("169.254.169.254 {LINK_LOCAL}")),
            (
                "１６９.２５４.１６９.２５４",
                format!("169.254.169.254 {LINK_LOCAL}"),
            ),
            (
                "[::ffff:169.254.169.254]",
                format!("::ffff:169.254.169.254 {LINK_LOCAL} (for 169.254.169.254)"),
            ),
            (
                "[64:ff9b::a9fe:a9fe]",
                format!("64:ff9b::a9fe:a9fe {LINK_LOCAL} (for 169.254.169.254)"),
            ),
            (
                "[2002:a9fe:a9fe::]",
                format!("2002:a9fe:a9fe:: {LINK_LOCAL} (for 169.254.169.254)"),
            ),
            (
                "[2001:0:a9fe:a9fe::5601:5601]",
                format!("2001:0:a9fe:a9fe::5601:5601 {LINK_LOCAL} (for 169.254.169.254)"),
            ),
            ("127.1", format!("127.0.0.1 {machine}")),
            ("①②⑦.⓪.⓪.①", format!("127.0.0.1 {machine}")),
            ("127。0。0。1", format!("127.0.0.1 {machine}")),
            ("%31%32%37.0.0.1", format!("127.0.0.1 {machine}")),
            ("127.0.0.1.", format!("127.0.0.1 {machine}")),
            (
                "[::ffff:7f00:1]",
                format!("::ffff:127.0.0.1 {machine} (for 127.0.0.1)"),
            ),
            (
                "[::127.0.0.1]",
                format!("::7f00:1 {machine} (for 127.0.0.1)"),
            ),
            ("[::]", format!(":: {machine}")),
            (
                "0",
                "0.0.0.0 is not a public address: it is this network".to_owned(),
            ),
        ]
        .map(|(host, told)| (format!("https://{host}/"), told));
        assert_blocked(&world, &cases).await;
    });
}

#[test]
fn what_is_no_public_https_url_is_not_even_resolved() {
    within(|| async {
        let world = Production::start().await;
        let cases = [
            (
                "http://partner.example/",
                "the url's scheme is `http`, only https is allowed",
            ),
            (
                "https://partner.example@169.254.169.254/",
                "the url contains a user name or password",
            ),
            (
                "https://partner.example:22/",
                "port 22 is not allowed, only 443 and 1024 to 65535 are",
            ),
            (
                "https://localhost/",
                "`localhost` is not a public host name",
            ),
            ("https://metadata/", "`metadata` is not a public host name"),
            (
                "https://metadata.google.internal/",
                "`metadata.google.internal` is not a public host name",
            ),
            (
                "https://metadata.goog/",
                "`metadata.goog` is not a public host name",
            ),
            (
                "https://a_name with space/",
                "the url is not an absolute URL",
            ),
        ]
        .map(|(url, told)| (url.to_owned(), told.to_owned()));
        assert_blocked(&world, &cases).await;
    });
}
