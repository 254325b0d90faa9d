//! A network of a test's own, in which `deliver` runs as it does in production: with public
//! addresses, port 443, its own resolver, and no way out.
//!
//! A test runs itself again in new namespaces of Linux. All addresses are on the loopback device;
//! there is no route to any other.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, id};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A public IPv4 address.
pub const PUBLIC: &str = "93.184.215.14";
/// Another one.
pub const PUBLIC_TOO: &str = "93.184.215.15";
/// A public IPv6 address.
pub const PUBLIC_IPV6: &str = "2606:2800:21f::1";
/// A public IPv4 address to which there is no route.
pub const ABSENT: &str = "93.184.215.99";
/// A public IPv6 address to which there is no route.
pub const ABSENT_IPV6: &str = "2606:2800:21f::99";
/// The resolver that programs in the network ask.
pub const RESOLVER: &str = "127.0.0.53";

/// Addresses at which nothing of a webhook may ever arrive: one of each kind, as far as the system
/// lets an interface have it.
pub const FORBIDDEN: [&str; 14] = [
    "127.0.0.1",
    "10.0.0.5",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.100.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.1.1",
    "::1",
    "fd00:ec2::254",
    "64:ff9b::a00:5",
    "64:ff9b:1::a00:5",
    "2002:a00:5::1",
];

/// Set inside, to the folder of the network's files.
const INSIDE: &str = "E2E_NETWORK";

/// What the network is made of before the test begins. It runs in a shell of the namespaces.
const SET_UP: &str = r#"
cd "$E2E_NETWORK"
ip link set lo up
# Without `nodad` an IPv6 address is not there at once.
for address in $ADDRESSES; do ip address add "$address" dev lo nodad; done
for file in resolv.conf nsswitch.conf hosts; do mount --bind "$file" "/etc/$file"; done
if [ -d /var/run/nscd ]; then mount -t tmpfs none /var/run/nscd; fi
: > ready
exec "$@"
"#;

const RESOLV_CONF: &str =
    "nameserver 127.0.0.53\nsearch corp.example\noptions timeout:1 attempts:1\n";

/// Runs a test in a network of its own. To be called by a `#[test]` function directly, whose only
/// content it is.
///
/// # Panics
/// If the test does, or if the machine lets nobody make a network.
pub fn within<T, F>(test: T)
where
    T: FnOnce() -> F,
    F: Future<Output = ()>,
{
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(test());
    }
    let name = test_name::<T>();
    let folder = Folder::new(&name);
    let output = run_inside(&folder.0, &name);
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        folder.0.join("ready").exists(),
        "this test needs a network namespace of its own, and `unshare --user --map-root-user --net \
         --mount` with `ip` and `mount` inside failed: allow unprivileged user namespaces (`sysctl \
         kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0`; in a \
         container, run it with `--privileged`) and install util-linux and iproute2:\n{told}"
    );
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("test result: ok. 1 passed;"),
        "{name} did not run: {told}"
    );
}

/// Writes a file that is there as long as the network, and gives its path.
///
/// # Panics
/// Outside of a network.
#[must_use]
pub fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::var_os(INSIDE).expect("a network");
    let path = Path::new(&folder).join(name);
    fs::write(&path, text).unwrap();
    path
}

/// From now on, a program that starts waits for the resolver this long.
///
/// # Panics
/// Outside of a network.
pub fn set_patience_with_resolver(patience: Duration) {
    let seconds = format!("timeout:{}", patience.as_secs());
    let _ = file("resolv.conf", &RESOLV_CONF.replace("timeout:1", &seconds));
}

/// Listeners at the ports 80 and 443 of [`FORBIDDEN`] addresses.
#[derive(Debug)]
pub struct Forbidden(Vec<TcpListener>);

impl Forbidden {
    /// Listens at all of them.
    pub async fn listen() -> Self {
        let mut listeners = Vec::new();
        for address in FORBIDDEN {
            let address: IpAddr = address.parse().unwrap();
            for port in [80, 443] {
                listeners.push(TcpListener::bind((address, port)).await.unwrap());
            }
        }
        Self(listeners)
    }

    /// Checks that nobody has connected to any of them.
    ///
    /// # Panics
    /// If somebody has.
    pub async fn assert_untouched(&self) {
        for listener in &self.0 {
            assert_untouched(listener).await;
        }
    }
}

/// A listener at port 443 of an address that lets every further connection wait, until it is
/// dropped.
#[derive(Debug)]
pub struct Unresponsive {
    _listener: TcpListener,
    _queue: Vec<TcpStream>,
}

impl Unresponsive {
    /// Listens, and fills the queue of connections that nobody accepts.
    pub async fn listen(address: &str) -> Self {
        let address = SocketAddr::new(address.parse().unwrap(), 443);
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        let socket = socket.unwrap();
        socket.bind(address).unwrap();
        // Linux takes one more than asked for.
        let listener = socket.listen(1).unwrap();
        let mut queue = Vec::new();
        for _ in 0..2 {
            queue.push(TcpStream::connect(address).await.unwrap());
        }
        Self {
            _listener: listener,
            _queue: queue,
        }
    }
}

/// Checks that no connection waits to be accepted.
///
/// # Panics
/// If one does.
pub async fn assert_untouched(listener: &TcpListener) {
    let accepted = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(accepted.is_err(), "{listener:?}: {accepted:?}");
}

/// The name of the test whose closure this is, as the test runner knows it.
fn test_name<T>() -> String {
    let path = std::any::type_name::<T>();
    let path = path.split_once("::").map_or(path, |(_, path)| path);
    path.trim_end_matches("::{{closure}}").to_owned()
}

fn run_inside(folder: &Path, test: &str) -> Output {
    let addresses = [PUBLIC, PUBLIC_TOO, PUBLIC_IPV6]
        .into_iter()
        .chain(FORBIDDEN);
    let addresses = addresses.filter(|address| !["127.0.0.1", "::1"].contains(address));
    let program = std::env::current_exe().unwrap();
    Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "--"])
        .args(["sh", "-ec", SET_UP, "sh"])
        .args([program.as_os_str(), OsStr::new(test)])
        .args(["--exact", "--nocapture"])
        .env(INSIDE, folder)
        .env("ADDRESSES", addresses.collect::<Vec<_>>().join(" "))
        .output()
        .unwrap_or_else(|error| panic!("`unshare` of util-linux is missing: {error}"))
}

/// A folder for the files of a network.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("e2e-network-{}-{}", id(), test.replace("::", "-"));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in [
            ("resolv.conf", RESOLV_CONF),
            // No other way to an answer, such as a resolver behind a Unix socket.
            ("nsswitch.conf", "hosts: files dns\n"),
            ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
