//! A scripted collector, and an uplink that sends to it.

use fabriclens_agent_uplink::config::{Collector, Compression, Mode, Spool, Tls};
use fabriclens_agent_uplink::ring::Ring;
use fabriclens_agent_uplink::spool::Limits;
use fabriclens_agent_uplink::{Counters, Uplink};
use fabriclens_catalog::metrics::traffic;
use fabriclens_testing::eventually_async;
use fabriclens_wire::{Column, Resource, Section, Value, troubled_jobs};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::MetricsService;
pub use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::MetricsServiceServer;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use parking_lot::Mutex;
use prost::Message as _;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request, Response, Status};

/// Reaction to the next request; without one the collector accepts.
#[derive(Clone)]
pub enum Act {
    Refuse(Code),
    /// Unavailable, with a retry delay.
    Busy(Duration),
    Partial(i64),
    Sleep(Duration),
}

#[derive(Clone, Default)]
pub struct Fake {
    pub script: Arc<Mutex<VecDeque<Act>>>,
    /// (series `direction`, value) of every accepted point of our test metric.
    pub got: Arc<Mutex<Vec<f64>>>,
    pub requests: Arc<Mutex<u32>>,
    /// Number of times that each point of any metric arrived, by series and time.
    pub seen: Arc<Mutex<HashMap<String, u32>>>,
    /// Required `authorization` header.
    pub wants: Option<&'static str>,
    /// Jobs in trouble, as the header of each answer has them.
    pub troubled_jobs: Option<&'static str>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<RpcDetail>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RpcDetail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<Delay>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delay {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

fn busy(after: Duration) -> Status {
    let delay = Some(Delay { seconds: after.as_secs() as i64, nanos: after.subsec_nanos() as i32 });
    let type_url = "type.googleapis.com/google.rpc.RetryInfo".to_owned();
    let detail = RpcDetail { type_url, value: RetryInfo { delay }.encode_to_vec() };
    Status::with_details(Code::Unavailable, "busy", RpcStatus { details: vec![detail] }.encode_to_vec().into())
}

#[tonic::async_trait]
impl MetricsService for Fake {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        *self.requests.lock() += 1;
        let told = request.metadata().get("authorization").and_then(|v| v.to_str().ok());
        if self.wants.is_some() && told != self.wants {
            return Err(Status::unauthenticated(format!("{told:?} is not known")));
        }
        let act = self.script.lock().pop_front();
        let mut partial_success = None;
        match act {
            Some(Act::Refuse(code)) => return Err(Status::new(code, "as the script says")),
            Some(Act::Busy(after)) => return Err(busy(after)),
            Some(Act::Sleep(time)) => tokio::time::sleep(time).await,
            Some(Act::Partial(rejected_data_points)) => {
                let error_message = "too old".to_owned();
                partial_success = Some(ExportMetricsPartialSuccess { rejected_data_points, error_message });
            }
            None => {}
        }
        for r in request.into_inner().resource_metrics {
            for m in r.scope_metrics.into_iter().flat_map(|s| s.metrics) {
                let (points, start) = match m.data {
                    Some(Data::Sum(sum)) => (sum.data_points, true),
                    Some(Data::Gauge(gauge)) => (gauge.data_points, false),
                    _ => continue,
                };
                if start && m.name == traffic::PORT_IO.name {
                    self.got.lock().extend(points.iter().map(|p| p.start_time_unix_nano as f64));
                }
                for p in points {
                    let point = format!("{:?} {} {:?} {}", r.resource, m.name, p.attributes, p.time_unix_nano);
                    *self.seen.lock().entry(point).or_default() += 1;
                }
            }
        }
        let mut response = Response::new(ExportMetricsServiceResponse { partial_success });
        if let Some(jobs) = self.troubled_jobs {
            response.metadata_mut().insert(troubled_jobs::HEADER, jobs.parse().expect("a header"));
        }
        Ok(response)
    }
}

impl Fake {
    pub fn with(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { script: Arc::new(Mutex::new(acts.into_iter().collect())), ..Self::default() }
    }

    pub async fn serve(
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

    pub async fn zstd(&self) -> SocketAddr {
        self.serve("127.0.0.1:0", Some(CompressionEncoding::Zstd), 64 << 20).await.0
    }
}

/// A section whose start times carry its number, so that the fake can identify it.
pub fn section(n: u64, urgent: bool, columns: usize) -> Section {
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

pub struct Run {
    pub ring: Arc<Ring<Section>>,
    pub counters: Arc<Counters>,
    pub stop: watch::Sender<bool>,
    pub task: JoinHandle<()>,
}

pub fn config(address: SocketAddr) -> Collector {
    Collector {
        url: format!("http://{address}"),
        others: vec![],
        mode: Mode::Failover,
        steady: Duration::from_secs(30),
        compression: Compression::Zstd,
        flush: Duration::from_millis(50),
        urgent: Duration::from_millis(10),
        timeout: Duration::from_secs(5),
        drain: Duration::from_secs(5),
        batch: 100,
        insecure: false,
        tls: Tls::default(),
        token_file: None,
    }
}

/// A spool below a directory that spills at once and is not slow.
pub fn spool(dir: &Path) -> Spool {
    let limits = Limits { bytes: 64 << 20, age: Duration::from_secs(3600) };
    let dir = Some(dir.to_owned());
    Spool { dir, asked: true, limits, after: Duration::ZERO, rate: 64 << 20, jitter: Duration::ZERO }
}

pub fn start(config: Collector) -> Run {
    start_with(config, None)
}

pub fn start_with(config: Collector, spool: Option<&Spool>) -> Run {
    let ring = Arc::new(Ring::new(1000, 1));
    let mut uplink = Uplink::new(config, "h", ring.reader(0), None).expect("a channel");
    if let Some(spool) = spool {
        uplink = uplink.with_spool(&spool.dir.as_ref().unwrap().join("samples"), spool);
    }
    let counters = uplink.counters();
    let (stop, stopped) = watch::channel(false);
    Run { ring, counters, stop, task: tokio::spawn(uplink.run(stopped)) }
}

impl Run {
    pub async fn end(self) -> Arc<Counters> {
        self.stop.send(true).expect("it listens");
        self.task.await.expect("it ends");
        let a = self.counters.accounts();
        assert_eq!(
            a.taken + a.found,
            a.acked + a.rejected + a.dropped + a.spooled,
            "every point is accounted for: {a:?}"
        );
        assert_eq!((a.in_flight, a.unaccounted), (0, 0), "{a:?}");
        self.counters
    }
}

pub async fn until(what: &str, mut done: impl FnMut() -> bool) {
    eventually_async(what, Duration::from_secs(20), async || done()).await;
}

pub fn sorted(fake: &Fake) -> Vec<f64> {
    let mut got = fake.got.lock().clone();
    got.sort_by(f64::total_cmp);
    got
}
