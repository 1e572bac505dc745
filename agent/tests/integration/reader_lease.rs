//! The lease of an InfiniBand subnet, asked for over the uplink's connection.

use crate::support::otlp::{Fake, config, until};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use fabriclens_agent_uplink::ring::Ring;
use fabriclens_agent_uplink::{LeaseTask, Outlook, ReaderLease, Uplink};
use fabriclens_reader_lease::{ASK, AskReply, AskRequest, LEASE};
use parking_lot::Mutex;
use prost::Message as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

/// A collector that answers every question alike, and what it was asked.
#[derive(Clone)]
struct Leases {
    answer: Arc<Mutex<Result<AskReply, Code>>>,
    asked: Arc<Mutex<Vec<AskRequest>>>,
}

impl Leases {
    fn new(answer: Result<AskReply, Code>) -> Self {
        Self { answer: Arc::new(Mutex::new(answer)), asked: Arc::default() }
    }

    async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let this = self.clone();
        let router = Router::new().route(ASK, post(move |body: Bytes| std::future::ready(this.reply(&body))));
        tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        address
    }

    fn reply(&self, body: &Bytes) -> Response {
        self.asked.lock().push(AskRequest::decode(&body[5..]).expect("a request"));
        let reply = match &*self.answer.lock() {
            Ok(reply) => reply.encode_to_vec(),
            Err(code) => return Status::new(*code, "as the test says").into_http::<Body>(),
        };
        let framed = [&[0][..], &(reply.len() as u32).to_be_bytes(), &reply].concat();
        // The status in the headers, so that the body needs no trailers.
        let headers = [("content-type", "application/grpc"), ("grpc-status", "0")];
        (HeaderMap::from_iter(headers.map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap()))), framed).into_response()
    }
}

fn granted(others: u32) -> Result<AskReply, Code> {
    Ok(AskReply { granted: true, holder: "h".to_owned(), lasts_ms: LEASE.as_millis() as u32, others })
}

fn refused() -> Result<AskReply, Code> {
    Ok(AskReply { holder: "other".to_owned(), ..AskReply::default() })
}

fn standby() -> Outlook {
    Outlook::Standby("other".to_owned())
}

/// A candidate that asks these collectors.
struct Candidate {
    lease: Arc<ReaderLease>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Candidate {
    fn start(collectors: &[SocketAddr]) -> Self {
        let urls: Vec<String> = collectors.iter().map(|address| format!("http://{address}")).collect();
        let mut config = config(collectors[0]);
        (config.url, config.others) = (urls[0].clone(), urls[1..].to_vec());
        let ring = Arc::new(Ring::new(10, 1));
        let uplinks = [Uplink::new(config, "h", ring.reader(0), None).expect("a channel")];
        let lease = Arc::new(ReaderLease::new("h"));
        lease.claim([3, 1, 2]);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(LeaseTask::new(&lease, &uplinks).run(stopped));
        Self { lease, stop, task }
    }

    fn outlook(&self) -> Outlook {
        self.lease.outlook(Instant::now())
    }

    /// Waits as a thread that reads: it checks often whether it may.
    async fn until(&self, what: &str, mut holds: impl FnMut(&Outlook) -> bool) {
        until(what, || holds(&self.outlook())).await;
    }

    async fn end(self) {
        self.stop.send(true).expect("it listens");
        self.task.await.expect("it ends");
    }
}

#[tokio::test]
async fn candidate_asks_and_learns_the_answer() {
    let collector = Leases::new(granted(1));
    let candidate = Candidate::start(&[collector.serve().await]);
    candidate.until("the lease is granted", |outlook| *outlook == Outlook::Held).await;
    let first = collector.asked.lock()[0].clone();
    assert_eq!((first.host.as_str(), first.switches.as_slice(), first.reading), ("h", &[1, 2, 3][..], false));
    candidate.lease.set_reading(true);
    candidate
        .until("it says that it reads", |_| collector.asked.lock().last().is_some_and(|asked| asked.reading))
        .await;
    *collector.answer.lock() = refused();
    candidate.until("it is refused", |outlook| *outlook == standby()).await;
    assert!(candidate.lease.is_lost(Instant::now()), "it must stop");
    candidate.end().await;
}

#[tokio::test]
async fn receiver_without_leases_permits_reading() {
    let address = Fake::default().zstd().await;
    let candidate = Candidate::start(&[address]);
    candidate.until("no lease is needed", |outlook| *outlook == Outlook::Unsupported).await;
    assert!(candidate.outlook().may_read());
    candidate.end().await;
}

#[tokio::test]
async fn refused_credentials_are_told_and_permit_nothing() {
    let collector = Leases::new(Err(Code::PermissionDenied));
    let candidate = Candidate::start(&[collector.serve().await]);
    let told = |outlook: &Outlook| matches!(outlook, Outlook::Silent(why) if why.contains("as the test says"));
    candidate.until("it is told", told).await;
    candidate.end().await;
}

#[tokio::test]
async fn all_collectors_that_answer_are_asked_in_order() {
    let [first, second] = [Leases::new(granted(0)), Leases::new(refused())];
    let addresses = [first.serve().await, second.serve().await];
    let candidate = Candidate::start(&addresses);
    candidate.until("the second refuses", |outlook| *outlook == standby()).await;
    *second.answer.lock() = Err(Code::Unavailable);
    candidate.until("the first alone decides", |outlook| *outlook == Outlook::Held).await;
    *first.answer.lock() = refused();
    candidate.until("the first refuses", |outlook| *outlook == standby()).await;
    let asked = second.asked.lock().len();
    let before = first.asked.lock().len();
    candidate.until("it asks on", |_| first.asked.lock().len() > before + 1).await;
    assert_eq!(second.asked.lock().len(), asked, "after a refusal the next one is not asked");
    candidate.end().await;
}

#[tokio::test]
async fn a_claim_that_ends_asks_for_nothing() {
    let collector = Leases::new(granted(0));
    let candidate = Candidate::start(&[collector.serve().await]);
    candidate.until("the lease is granted", |outlook| *outlook == Outlook::Held).await;
    candidate.lease.claim([]);
    assert!(!candidate.outlook().may_read());
    let asked = collector.asked.lock().len();
    candidate.lease.claim([9]);
    candidate.until("it asks anew", |outlook| collector.asked.lock().len() > asked && *outlook == Outlook::Held).await;
    assert_eq!(collector.asked.lock().last().map(|asked| asked.switches.clone()), Some(vec![9]));
    candidate.end().await;
}
