//! The partners of a run, each with a server of its own, and the log of what came to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::net::TcpSocket;

use super::evidence::Post;
use super::plan::PartnerPlan;
use super::script::{BAD_HANDSHAKES, Script};
use super::{now_ms, unix_ms};
use crate::receiver::{Received, Receiver};
use crate::signature::secret_for;
use crate::tls::{Authority, Identity, Partner as TlsPartner, Play, Validity};

/// A partner with its server.
#[derive(Debug)]
pub struct Partner {
    /// Its part of the plan.
    pub plan: PartnerPlan,
    /// Its signing secret.
    pub secret: String,
    server: Server,
    posts: Arc<Mutex<Vec<Post>>>,
}

#[derive(Debug)]
enum Server {
    Plain(Receiver),
    Tls(TlsPartner),
    /// The address is taken and nobody listens.
    None(TcpSocket),
}

impl Partner {
    /// Starts its server. If it has a good certificate, that is of this authority.
    ///
    /// # Panics
    /// If there is no free port.
    pub async fn start(plan: &PartnerPlan, authority: &Authority) -> Self {
        let secret = secret_for(&plan.id);
        let posts = Arc::new(Mutex::new(Vec::new()));
        let identity = || Identity::self_signed(&["127.0.0.1"]);
        let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_vec();
        let good = || authority.issue(&["127.0.0.1"], Validity::Now);
        let server = match plan.script {
            Script::GoodTls => Server::Tls(TlsPartner::local(&good(), Play::Answer(answer)).await),
            Script::RecoversTls => {
                let play = Play::HangUpInHandshakes(BAD_HANDSHAKES, answer);
                Server::Tls(TlsPartner::local(&good(), play).await)
            }
            Script::SelfSigned => {
                Server::Tls(TlsPartner::local(&identity(), Play::Answer(answer)).await)
            }
            Script::NoTls => Server::Tls(TlsPartner::local(&identity(), Play::Plain(answer)).await),
            Script::HangsUpInHandshake => {
                Server::Tls(TlsPartner::local(&identity(), Play::HangUpInHandshake).await)
            }
            Script::Down => Server::None(Receiver::refusing().0),
            Script::Good
            | Script::DropsBody
            | Script::EndlessBody
            | Script::GzipBomb
            | Script::Late
            | Script::DropsStatus
            | Script::Resets
            | Script::Throttles
            | Script::Broken
            | Script::Leaves => Server::Plain(receiver(plan, &secret, &posts).await),
        };
        Self {
            plan: plan.clone(),
            secret,
            server,
            posts,
        }
    }

    /// Where it wants its webhooks.
    ///
    /// # Panics
    /// If its socket has no address.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.server {
            Server::Plain(receiver) => receiver.url("/webhooks"),
            Server::Tls(partner) => format!("https://{}/webhooks", partner.address()),
            Server::None(socket) => format!("http://{}/webhooks", socket.local_addr().unwrap()),
        }
    }

    /// What came to it so far.
    ///
    /// # Panics
    /// If something came that is not an HTTP request.
    #[must_use]
    pub fn posts(&self) -> Vec<Post> {
        let mut posts = self.posts.lock().unwrap().clone();
        match &self.server {
            Server::Plain(receiver) => {
                // Also complains of what is no request.
                assert!(receiver.requests().len() >= posts.len());
                let answered = receiver.answered();
                for (number, post) in posts.iter_mut().enumerate() {
                    let at = answered.get(&number).filter(|_| post.status.is_some());
                    post.answered_at = at.map(|at| unix_ms(*at));
                }
            }
            Server::Tls(partner) => {
                let seen = partner.seen();
                for (request, (at, answered)) in seen.requests.iter().zip(seen.times) {
                    let mut post = post_of(&self.plan, &self.secret, request, unix_ms(at));
                    // Whoever answers accepts.
                    post.status = Some(204);
                    post.answered_at = answered.map(unix_ms);
                    posts.push(post);
                }
            }
            Server::None(_) => {}
        }
        posts
    }
}

async fn receiver(plan: &PartnerPlan, secret: &str, posts: &Arc<Mutex<Vec<Post>>>) -> Receiver {
    let (plan, secret, posts) = (plan.clone(), secret.to_owned(), Arc::clone(posts));
    let seen: Mutex<HashMap<String, usize>> = Mutex::default();
    Receiver::start(move |received: &Received| {
        let mut post = post_of(&plan, &secret, &received.request, unix_ms(received.at));
        let mut seen = seen.lock().unwrap();
        let deliveries = seen.len() - usize::from(seen.contains_key(&post.webhook_id));
        let count = seen.entry(post.webhook_id.clone()).or_default();
        let (status, answer) = plan.script.answer(*count, deliveries);
        *count += 1;
        post.status = status;
        let mut posts = posts.lock().unwrap();
        // They are told apart by their number; two that come together may come in another order.
        if posts.len() <= received.number {
            posts.resize(received.number + 1, Post::default());
        }
        posts[received.number] = post;
        answer
    })
    .await
}

fn post_of(plan: &PartnerPlan, secret: &str, request: &crate::http1::Request, at: u64) -> Post {
    Post {
        partner: plan.id.clone(),
        webhook_id: request.header("webhook-id").unwrap_or_default().to_owned(),
        at,
        body: String::from_utf8_lossy(&request.body).into_owned(),
        refused: refusal(secret, request, at).err(),
        status: None,
        answered_at: None,
    }
}

/// How old or new a request may be, in seconds: as in the libraries for receivers.
const TOLERANCE_SECONDS: u64 = 300;

/// Why the library for receivers does not take a request, or why a partner would not.
/// `at` is when it came: it may be looked at much later.
fn refusal(secret: &str, request: &crate::http1::Request, at: u64) -> Result<(), String> {
    if (request.method.as_str(), request.target.as_str()) != ("POST", "/webhooks") {
        return Err(format!("{} {}", request.method, request.target));
    }
    let mut headers = http::HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let value = request.header(name).ok_or_else(|| format!("no {name}"))?;
        let value = value.parse().map_err(|_| format!("{name}: {value}"))?;
        headers.insert(name, value);
    }
    let library = standardwebhooks::Webhook::new(secret).map_err(|error| error.to_string())?;
    if now_ms().saturating_sub(at) < 1000 {
        let verified = library.verify(&request.body, &headers);
        return verified.map_err(|error| error.to_string());
    }
    // By now it may be too old, which it was not when it came.
    let text = |name: &str| request.header(name).unwrap_or_default();
    let timestamp = text("webhook-timestamp");
    let seconds: i64 = timestamp.parse().map_err(|_| timestamp.to_owned())?;
    let expected = library
        .sign(text("webhook-id"), seconds, &request.body)
        .map_err(|error| error.to_string())?;
    let is_signed = text("webhook-signature")
        .split(' ')
        .any(|one| one == expected);
    let is_fresh = seconds.unsigned_abs().abs_diff(at / 1000) <= TOLERANCE_SECONDS;
    if is_signed && is_fresh {
        Ok(())
    } else {
        Err(format!("signed: {is_signed}, in time: {is_fresh}"))
    }
}

/// All that came to these partners, in the order of time.
#[must_use]
pub fn posts_of(partners: &[Partner]) -> Vec<Post> {
    let mut posts: Vec<Post> = partners.iter().flat_map(Partner::posts).collect();
    posts.sort_by_key(|post| post.at);
    posts
}
