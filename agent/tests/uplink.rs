//! The uplink against a collector that is away, slow, busy, strict or small: what was taken is always accounted for.

use fabriclens_agent::config::{Collector, Compression, Tls};
use fabriclens_agent::ring::Ring;
use fabriclens_agent::uplink::{Counters, State, Uplink};
use fabriclens_catalog::metrics::traffic;
use fabriclens_wire::{Column, Resource, Section, Value};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request, Response, Status};

/// What the collector does with the next request; when the list is empty it accepts.
#[derive(Clone)]
enum Act {
    Refuse(Code),
    Partial(i64),
    Sleep(Duration),
}

#[derive(Clone, Default)]
struct Fake {
    script: Arc<Mutex<VecDeque<Act>>>,
    /// (series `direction`, value) of every accepted point of our test metric.
    got: Arc<Mutex<Vec<f64>>>,
    requests: Arc<Mutex<u32>>,
}

#[tonic::async_trait]
impl MetricsService for Fake {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        *self.requests.lock() += 1;
        let act = self.script.lock().pop_front();
        let mut partial_success = None;
        match act {
            Some(Act::Refuse(code)) => return Err(Status::new(code, "as the script says")),
            Some(Act::Sleep(time)) => tokio::time::sleep(time).await,
            Some(Act::Partial(rejected_data_points)) => {
                let error_message = "too old".to_owned();
                partial_success = Some(ExportMetricsPartialSuccess { rejected_data_points, error_message });
            }
            None => {}
        }
        for r in request.into_inner().resource_metrics {
            for m in r.scope_metrics.into_iter().flat_map(|s| s.metrics).filter(|m| m.name == traffic::PORT_IO.name) {
                if let Some(Data::Sum(sum)) = m.data {
                    self.got.lock().extend(sum.data_points.iter().map(|p| p.start_time_unix_nano as f64));
                }
            }
        }
        Ok(Response::new(ExportMetricsServiceResponse { partial_success }))
    }
}

impl Fake {
    fn with(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { script: Arc::new(Mutex::new(acts.into_iter().collect())), ..Self::default() }
    }

    async fn serve(
        &self,
        address: &str,
        compression: Option<CompressionEncoding>,
        limit: usize,
    ) -> (SocketAddr, JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind(address).await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut service = MetricsServiceServer::new(self.clone()).max_decoding_message_size(limit);
        if let Some(c) = compression {
            service = service.accept_compressed(c);
        }
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let task = tokio::spawn(async move {
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.expect("served");
        });
        (address, task)
    }

    async fn zstd(&self) -> SocketAddr {
        self.serve("127.0.0.1:0", Some(CompressionEncoding::Zstd), 64 << 20).await.0
    }
}

/// A section whose start times carry its number, so that the fake can tell which ones came.
fn section(n: u64, urgent: bool, columns: usize) -> Section {
    let column =
        |i: usize| Column { metric: &traffic::PORT_IO, labels: vec![("direction".into(), i.to_string().into())] };
    Section {
        resource: Arc::new(Resource { host: "h".into(), device: Some("mlx5_0".into()), port: Some(1) }),
        columns: (0..columns).map(column).collect(),
        begin_ns: 1,
        end_ns: 1_700_000_000_000_000_000 + n * 1_000_000_000,
        starts: vec![n + 1; columns].into(),
        values: vec![Value::Int(n); columns],
        urgent,
    }
}

struct Run {
    ring: Arc<Ring<Section>>,
    counters: Arc<Counters>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

fn config(address: SocketAddr) -> Collector {
    Collector {
        url: format!("http://{address}"),
        compression: Compression::Zstd,
        flush: Duration::from_millis(50),
        urgent: Duration::from_millis(10),
        timeout: Duration::from_secs(5),
        drain: Duration::from_secs(5),
        batch: 100,
        insecure: false,
        tls: Tls::default(),
    }
}

fn start(config: Collector) -> Run {
    let ring = Arc::new(Ring::new(1000, 1));
    let uplink = Uplink::new(config, "h", ring.reader(0)).expect("a channel");
    let counters = uplink.counters();
    let (stop, stopped) = watch::channel(false);
    Run { ring, counters, stop, task: tokio::spawn(uplink.run(stopped)) }
}

impl Run {
    async fn end(self) -> Arc<Counters> {
        self.stop.send(true).expect("it listens");
        self.task.await.expect("it ends");
        let (taken, acked, rejected, dropped) = self.counters.accounts();
        assert_eq!(taken, acked + rejected + dropped, "every point that was taken is accounted for");
        self.counters
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "waiting for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn sorted(fake: &Fake) -> Vec<f64> {
    let mut got = fake.got.lock().clone();
    got.sort_by(f64::total_cmp);
    got
}

#[tokio::test]
async fn calm_ticks_travel_together_and_urgent_ones_at_once() {
    let fake = Fake::default();
    let run = start(Collector { flush: Duration::from_secs(10), ..config(fake.zstd().await) });
    for n in 0..20 {
        run.ring.push(section(n, false, 3));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(*fake.requests.lock(), 0, "nothing is urgent, and the flush time is far");
    let begin = Instant::now();
    run.ring.push(section(20, true, 3));
    until("the urgent section", || fake.got.lock().len() == 63).await;
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!(*fake.requests.lock(), 1);
    // The collector has it a moment before its answer is here.
    until("the answer", || run.counters.state() == State::Up).await;
    run.end().await;
}

#[tokio::test]
async fn failures_are_tried_again_without_loss_or_repetition() {
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
    assert_eq!(counters.accounts().3, 0);
}

#[tokio::test]
async fn a_collector_that_starts_late_or_again_is_found() {
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
    assert_eq!(run.end().await.accounts().3, 0);
}

#[tokio::test]
async fn a_collector_that_hangs_costs_one_timeout() {
    let fake = Fake::with([Act::Sleep(Duration::from_secs(60))]);
    let run = start(Collector { timeout: Duration::from_millis(200), ..config(fake.zstd().await) });
    run.ring.push(section(0, true, 1));
    until("the point", || fake.got.lock().len() == 1).await;
    assert_eq!(run.end().await.retries(), 1);
}

#[tokio::test]
async fn a_permanent_refusal_drops_that_request_and_counts_it() {
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
async fn partial_success_is_counted_and_not_sent_again() {
    let fake = Fake::with([Act::Partial(2)]);
    let run = start(config(fake.zstd().await));
    run.ring.push(section(0, true, 3));
    until("the answer", || run.counters.accounts().2 == 2).await;
    assert_eq!(run.end().await.retries(), 0);
    assert_eq!(fake.got.lock().len(), 3);
}

#[tokio::test]
async fn a_receiver_without_zstd_gets_gzip_and_one_without_any_gets_plain() {
    for compression in [Some(CompressionEncoding::Gzip), None] {
        let fake = Fake::default();
        let (address, _task) = fake.serve("127.0.0.1:0", compression, 64 << 20).await;
        let run = start(config(address));
        run.ring.push(section(0, true, 2));
        until("the point", || fake.got.lock().len() == 2).await;
        assert_eq!(run.end().await.accounts().3, 0);
    }
}

#[tokio::test]
async fn a_receiver_with_a_small_limit_gets_smaller_requests() {
    let fake = Fake::default();
    let (address, _task) = fake.serve("127.0.0.1:0", Some(CompressionEncoding::Zstd), 8 << 10).await;
    let run = start(config(address));
    for n in 0..50 {
        run.ring.push(section(n, n == 49, 10));
    }
    until("all points", || fake.got.lock().len() == 500).await;
    let counters = run.end().await;
    assert_eq!((counters.accounts().3, counters.retries()), (0, 0));

    let tiny = Fake::default();
    let (address, _task) = tiny.serve("127.0.0.1:0", Some(CompressionEncoding::Zstd), 16).await;
    let run = start(config(address));
    run.ring.push(section(0, true, 10));
    until("the drop", || run.counters.dropped_for("too_large") >= 10).await;
    run.end().await;
}

#[tokio::test]
async fn shutdown_sends_what_is_queued_but_not_for_ever() {
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
