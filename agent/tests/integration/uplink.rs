//! The uplink against a collector that is absent, slow, busy, strict or small: every accepted point is accounted for.

use crate::support::otlp;
use crate::support::otlp::{Act, Fake, config, section, sorted, start, until};
use fabriclens_agent_uplink::config::{Collector, Tls};
use fabriclens_agent_uplink::ring::Ring;
use fabriclens_agent_uplink::{State, TroubledJobs, Uplink};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::codec::CompressionEncoding;

#[tokio::test]
async fn urgent_ticks_skip_batching() {
    let fake = Fake::default();
    let run = start(Collector { flush: Duration::from_secs(10), ..config(fake.zstd().await) });
    for n in 0..20 {
        run.ring.push(section(n, false, 3));
    }
    // Absence has no condition: a batch that was sent at once would arrive in this time.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(*fake.requests.lock(), 0, "nothing is urgent, and the flush time is far");
    let begin = Instant::now();
    run.ring.push(section(20, true, 3));
    until("the urgent section", || fake.got.lock().len() == 63).await;
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!(*fake.requests.lock(), 1);
    // The collector has the request before its answer arrives.
    until("the answer", || run.counters.state() == State::Up).await;
    run.end().await;
}

#[tokio::test]
async fn jobs_in_trouble_are_learned_from_answers() {
    let fake = Fake { troubled_jobs: Some("7,a%2F8"), ..Fake::default() };
    let jobs = Arc::new(TroubledJobs::default());
    let ring = Arc::new(Ring::new(64, 1));
    let uplink = Uplink::new(config(fake.zstd().await), "h", ring.reader(0), None).unwrap().with_troubled_jobs(&jobs);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let task = tokio::spawn(uplink.run(stopped));
    ring.push(section(0, true, 1));
    until("jobs", || jobs.has("a/8", Instant::now())).await;
    assert_eq!(["7", "8"].map(|job| jobs.has(job, Instant::now())), [true, false]);
    stop.send(true).unwrap();
    task.await.unwrap();
}

#[tokio::test]
async fn retries_neither_lose_nor_repeat() {
    let refusals = [Code::Unavailable, Code::Aborted, Code::DeadlineExceeded].map(Act::Refuse);
    let fake = Fake::with(refusals);
    let run = start(config(fake.zstd().await));
    for n in 0..5 {
        run.ring.push(section(n, false, 1));
    }
    until("all points", || fake.got.lock().len() >= 5).await;
    assert_eq!(sorted(&fake), [1.0, 2.0, 3.0, 4.0, 5.0]);
    let counters = run.end().await;
    assert_eq!(counters.retries(), 3);
    assert_eq!(counters.accounts().dropped, 0);
}

#[tokio::test]
async fn late_or_restarted_collector_is_found() {
    let fake = Fake::default();
    let (address, first) = fake.serve("127.0.0.1:0", Some(CompressionEncoding::Zstd), 64 << 20).await;
    first.abort();
    _ = first.await;
    let run = start(config(address));
    run.ring.push(section(0, true, 1));
    until("the state", || matches!(run.counters.state(), State::Down { .. })).await;
    let State::Down { error, .. } = run.counters.state() else { panic!("down") };
    assert!(error.to_lowercase().contains("refused"), "the cause is told: {error}");
    run.ring.push(section(1, true, 1));
    let _again = fake.serve(&address.to_string(), Some(CompressionEncoding::Zstd), 64 << 20).await;
    until("both points", || fake.got.lock().len() == 2).await;
    assert_eq!(run.counters.state(), State::Up);
    assert_eq!(run.end().await.accounts().dropped, 0);
}

#[tokio::test]
async fn hanging_collector_costs_one_timeout() {
    let fake = Fake::with([Act::Sleep(Duration::from_secs(60))]);
    let run = start(Collector { timeout: Duration::from_millis(200), ..config(fake.zstd().await) });
    run.ring.push(section(0, true, 1));
    until("the point", || fake.got.lock().len() == 1).await;
    assert_eq!(run.end().await.retries(), 1);
}

#[tokio::test]
async fn permanent_rejection_drops_and_counts() {
    let fake = Fake::with([Act::Refuse(Code::InvalidArgument)]);
    let run = start(config(fake.zstd().await));
    run.ring.push(section(0, true, 4));
    until("the refusal", || run.counters.dropped_for("invalid") > 0).await;
    run.ring.push(section(1, true, 1));
    until("the next point", || sorted(&fake) == [2.0]).await;
    let counters = run.end().await;
    assert!(counters.dropped_for("invalid") >= 4);
    assert_eq!(counters.retries(), 0);
}

#[tokio::test]
async fn partial_success_is_not_retried() {
    let fake = Fake::with([Act::Partial(2)]);
    let run = start(config(fake.zstd().await));
    run.ring.push(section(0, true, 3));
    until("the answer", || run.counters.accounts().rejected == 2).await;
    assert_eq!(run.end().await.retries(), 0);
    assert_eq!(fake.got.lock().len(), 3);
}

#[tokio::test]
async fn compression_falls_back() {
    for compression in [Some(CompressionEncoding::Gzip), None] {
        let fake = Fake::default();
        let (address, _task) = fake.serve("127.0.0.1:0", compression, 64 << 20).await;
        let run = start(config(address));
        run.ring.push(section(0, true, 2));
        until("the point", || fake.got.lock().len() == 2).await;
        assert_eq!(run.end().await.accounts().dropped, 0);
    }
}

#[tokio::test]
async fn requests_shrink_for_small_limits() {
    let fake = Fake::default();
    let (address, _task) = fake.serve("127.0.0.1:0", Some(CompressionEncoding::Zstd), 8 << 10).await;
    let run = start(config(address));
    for n in 0..50 {
        run.ring.push(section(n, n == 49, 10));
    }
    until("all points", || fake.got.lock().len() == 500).await;
    let counters = run.end().await;
    assert_eq!((counters.accounts().dropped, counters.retries()), (0, 0));

    let tiny = Fake::default();
    let (address, _task) = tiny.serve("127.0.0.1:0", Some(CompressionEncoding::Zstd), 16).await;
    let run = start(config(address));
    run.ring.push(section(0, true, 10));
    until("the drop", || run.counters.dropped_for("too_large") >= 10).await;
    run.end().await;
}

#[tokio::test]
async fn shutdown_flushes_within_its_limit() {
    let fake = Fake::default();
    let run = start(Collector { flush: Duration::from_secs(60), ..config(fake.zstd().await) });
    for n in 0..250 {
        run.ring.push(section(n, false, 1));
    }
    run.end().await;
    assert_eq!(fake.got.lock().len(), 250);

    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let run = start(Collector { drain: Duration::from_millis(300), ..config(nobody) });
    for n in 0..10 {
        run.ring.push(section(n, true, 1));
    }
    until("the state", || matches!(run.counters.state(), State::Down { .. })).await;
    let begin = Instant::now();
    let counters = run.end().await;
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert!(counters.dropped_for("shutdown") >= 10);
}

#[tokio::test]
async fn samples_wait_for_a_new_token() {
    let fake = Fake { wants: Some("Bearer two"), ..Fake::default() };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    std::fs::write(&file, "one\n").expect("written");
    let run = start(Collector { token_file: Some(file.clone()), ..config(fake.zstd().await) });
    (0..3).for_each(|n| _ = run.ring.push(section(n, false, 1)));
    until("a refusal", || *fake.requests.lock() > 1).await;
    assert!(matches!(run.counters.state(), State::Down { .. }));
    std::fs::write(&file, "two\n").expect("written");
    until("delivery", || fake.got.lock().len() == 3).await;
    run.end().await;
    assert_eq!(sorted(&fake), [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn unsendable_token_prevents_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    let start = || {
        let config = Collector { token_file: Some(file.clone()), ..config(([127, 0, 0, 1], 1).into()) };
        let error =
            Uplink::new(config, "h", Arc::new(Ring::new(100, 1)).reader(0), None).expect_err("no token").to_string();
        assert!(error.contains(&*file.to_string_lossy()), "{error}");
        error
    };
    assert!(start().contains("check path and permissions"));
    for bad in ["\n", "a\nb"] {
        std::fs::write(&file, bad).expect("written");
        assert!(start().contains("copy it to the file unchanged"), "{bad:?}");
    }
}

/// A certificate and its key, signed by an authority.
fn issue(ca: &rcgen::CertifiedIssuer<'_, rcgen::KeyPair>) -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let params = rcgen::CertificateParams::new(names).expect("names");
    (params.signed_by(&key, ca).expect("a certificate").pem(), key.serialize_pem())
}

fn authority() -> rcgen::CertifiedIssuer<'static, rcgen::KeyPair> {
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().expect("a key");
    rcgen::CertifiedIssuer::self_signed(params, key).expect("an authority")
}

#[tokio::test]
async fn replaced_certificate_needs_no_restart() {
    let (ca, stranger) = (authority(), authority());
    let fake = Fake::default();
    let (cert, key) = issue(&ca);
    let tls = tonic::transport::ServerTlsConfig::new()
        .identity(tonic::transport::Identity::from_pem(cert, key))
        .client_ca_root(tonic::transport::Certificate::from_pem(ca.pem()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let service = otlp::MetricsServiceServer::new(fake.clone()).accept_compressed(CompressionEncoding::Zstd);
    let mut server = tonic::transport::Server::builder().tls_config(tls).expect("certificates");
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(async move { server.add_service(service).serve_with_incoming(incoming).await.expect("served") });

    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let write = |(cert, key): (String, String)| {
        std::fs::write(path("cert"), cert).expect("written");
        std::fs::write(path("key"), key).expect("written");
    };
    std::fs::write(path("ca"), ca.pem()).expect("written");
    write(issue(&stranger));
    let tls = Tls { ca: Some(path("ca")), identity: Some((path("cert"), path("key"))) };
    let run = start(Collector { url: format!("https://{address}"), tls, ..config(address) });
    run.ring.push(section(0, false, 1));
    until("a refusal", || matches!(run.counters.state(), State::Down { .. })).await;
    assert_eq!(*fake.requests.lock(), 0, "a stranger's certificate");
    // First a certificate that does not match its key: the old one stays, and the next change is noticed.
    std::fs::write(path("cert"), issue(&ca).0).expect("written");
    write(issue(&ca));
    until("delivery", || fake.got.lock().len() == 1).await;
    run.end().await;
}
