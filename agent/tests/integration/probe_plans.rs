//! The probe plan, asked for over the uplink's connection, and the report of what was found.

use crate::support::otlp::{Fake, config, until};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use fabriclens_agent_uplink::ring::Ring;
use fabriclens_agent_uplink::{Finding, Part, PlanState, PlanTask, ProbePlans, ReportTask, Uplink};
use fabriclens_probe_plan::{
    PLAN, PlanReply, PlanRequest, ProbeResult, ProbedPort, REPORT, ReportReply, ReportRequest, ReportedPair, Target,
};
use parking_lot::Mutex;
use prost::Message;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use tonic::{Code, Status};

/// A collector with one answer to each method, and what it was sent.
#[derive(Clone)]
pub struct Collector {
    pub plan: Arc<Mutex<Result<PlanReply, Code>>>,
    pub report: Arc<Mutex<Result<ReportReply, Code>>>,
    pub asked: Arc<Mutex<Vec<PlanRequest>>>,
    pub reported: Arc<Mutex<Vec<ReportRequest>>>,
}

impl Collector {
    pub fn new(plan: Result<PlanReply, Code>) -> Self {
        let report = Arc::new(Mutex::new(Ok(ReportReply::default())));
        Self { plan: Arc::new(Mutex::new(plan)), report, asked: Arc::default(), reported: Arc::default() }
    }

    pub async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let (this, that) = (self.clone(), self.clone());
        let plan = move |body: Bytes| {
            this.asked.lock().push(PlanRequest::decode(&body[5..]).expect("a request"));
            std::future::ready(reply(&this.plan.lock()))
        };
        let report = move |body: Bytes| {
            that.reported.lock().push(ReportRequest::decode(&body[5..]).expect("a report"));
            std::future::ready(reply(&that.report.lock()))
        };
        let router = Router::new().route(PLAN, post(plan)).route(REPORT, post(report));
        tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        address
    }
}

fn reply(reply: &Result<impl Message, Code>) -> Response {
    let reply = match reply {
        Ok(reply) => reply.encode_to_vec(),
        Err(code) => return Status::new(*code, "as the test says").into_http::<Body>(),
    };
    let framed = [&[0][..], &(reply.len() as u32).to_be_bytes(), &reply].concat();
    // The status in the headers, so that the body needs no trailers.
    let headers = [("content-type", "application/grpc"), ("grpc-status", "0")];
    (HeaderMap::from_iter(headers.map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap()))), framed).into_response()
}

fn port(name: &str) -> ProbedPort {
    ProbedPort { name: name.to_owned(), address: vec![10, 0, 0, 1], traces: true, ..ProbedPort::default() }
}

fn plan(host: &str) -> PlanReply {
    let target = Target { from: "rxe0/1".into(), host: host.into(), to: Some(port("rxe0/1")), ..Target::default() };
    PlanReply { lasts_ms: 60_000, targets: vec![target] }
}

/// The tasks of an agent with one uplink for each list of collectors.
pub struct Agent {
    pub plans: Arc<ProbePlans>,
    stop: watch::Sender<bool>,
}

impl Agent {
    pub fn start(uplinks: &[&[SocketAddr]], ports: Vec<ProbedPort>) -> Self {
        let uplink = |collectors: &&[SocketAddr]| {
            let urls: Vec<String> = collectors.iter().map(|address| format!("http://{address}")).collect();
            let mut config = config(collectors[0]);
            (config.url, config.others) = (urls[0].clone(), urls[1..].to_vec());
            Uplink::new(config, "h", Arc::new(Ring::new(10, 1)).reader(0), None).expect("a channel")
        };
        let uplinks: Vec<Uplink> = uplinks.iter().map(uplink).collect();
        let plans = Arc::new(ProbePlans::new("h", uplinks.len()));
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(PlanTask::new(&plans, &uplinks).run(stopped.clone()));
        for task in ReportTask::of(&plans, &uplinks) {
            tokio::spawn(task.run(stopped.clone()));
        }
        plans.offer(Part::Tracer, ports);
        Self { plans, stop }
    }

    fn hosts(&self) -> Vec<String> {
        let plan = self.plans.plan(Instant::now());
        plan.iter().flat_map(|plan| plan.targets.iter().map(|target| target.host.clone())).collect()
    }

    fn found(&self, sent_ns: u64) {
        let pair = ReportedPair { from: "rxe0/1".into(), host: "b".into(), port: "rxe0/1".into() };
        self.plans.report(&Arc::new(pair), Finding::Probe(ProbeResult { sent_ns, ..ProbeResult::default() }));
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        _ = self.stop.send(true);
    }
}

#[tokio::test]
async fn agent_offers_its_ports_and_takes_the_plan() {
    let collector = Collector::new(Ok(plan("b")));
    let agent = Agent::start(&[&[collector.serve().await]], vec![port("rxe0/1")]);
    until("the plan is there", || agent.hosts() == ["b"]).await;
    let first = collector.asked.lock()[0].clone();
    assert_eq!((first.host.as_str(), first.ports.as_slice()), ("h", &[port("rxe0/1")][..]));
    assert!(matches!(agent.plans.state(), PlanState::Answered { targets: 1, .. }));
    // A new port is told at once, and the last one that goes too.
    *collector.plan.lock() = Ok(plan("c"));
    agent.plans.offer(Part::Tracer, vec![port("rxe1/1")]);
    until("the new plan is there", || agent.hosts() == ["c"]).await;
    agent.plans.offer(Part::Tracer, vec![]);
    until("no port is told", || collector.asked.lock().last().is_some_and(|asked| asked.ports.is_empty())).await;
}

#[tokio::test]
async fn an_agent_without_ports_asks_for_nothing() {
    let collector = Collector::new(Ok(plan("b")));
    let address = collector.serve().await;
    let agent = Agent::start(&[&[address]], vec![port("rxe0/1")]);
    agent.plans.offer(Part::Tracer, vec![]);
    tokio::time::sleep(std::time::Duration::from_millis(800)).await;
    assert!(collector.asked.lock().is_empty() && agent.plans.state() == PlanState::NotAsked);
}

#[tokio::test]
async fn a_plan_out_of_bounds_is_refused_and_the_last_one_stays() {
    let collector = Collector::new(Ok(plan("b")));
    let agent = Agent::start(&[&[collector.serve().await]], vec![port("rxe0/1")]);
    until("the plan is there", || agent.hosts() == ["b"]).await;
    let mut foul = plan("c");
    foul.targets[0].source_ports = vec![70_000];
    *collector.plan.lock() = Ok(foul);
    agent.plans.offer(Part::Prober, vec![port("rxe1/1")]);
    let told = || matches!(agent.plans.state(), PlanState::Failed(why) if why.contains("refused a plan with source port 70000"));
    until("it is refused", told).await;
    assert_eq!(agent.hosts(), ["b"]);
}

#[tokio::test]
async fn a_receiver_without_plans_is_told_apart_from_a_failure() {
    let unknown = Fake::default().zstd().await;
    let agent = Agent::start(&[&[unknown]], vec![port("rxe0/1")]);
    until("it is unsupported", || agent.plans.state() == PlanState::Unsupported).await;
    let refusing = Collector::new(Err(Code::PermissionDenied));
    let agent = Agent::start(&[&[refusing.serve().await]], vec![port("rxe0/1")]);
    let told = || matches!(agent.plans.state(), PlanState::Failed(why) if why.contains("as the test says"));
    until("the refusal is told", told).await;
    assert!(agent.hosts().is_empty());
}

#[tokio::test]
async fn with_several_uplinks_one_plan_holds_and_all_get_reports() {
    let unknown = Fake::default().zstd().await;
    let [second, third] = [Collector::new(Ok(plan("b"))), Collector::new(Ok(plan("c")))];
    let addresses = [second.serve().await, third.serve().await];
    let agent = Agent::start(&[&[unknown], &addresses[..1], &addresses[1..]], vec![port("rxe0/1")]);
    until("the first that answers decides", || agent.hosts() == ["b"]).await;
    assert!(third.asked.lock().is_empty());
    agent.found(7);
    for collector in [&second, &third] {
        until("it has the result", || collector.reported.lock().iter().any(|r| r.probes[0].sent_ns == 7)).await;
        assert!(collector.reported.lock()[0].check().is_ok());
    }
}

#[tokio::test]
async fn a_report_that_fails_is_sent_again_and_one_that_is_invalid_is_not() {
    let collector = Collector::new(Ok(plan("b")));
    *collector.report.lock() = Err(Code::Unavailable);
    let agent = Agent::start(&[&[collector.serve().await]], vec![port("rxe0/1")]);
    agent.found(1);
    until("it is sent", || !collector.reported.lock().is_empty()).await;
    *collector.report.lock() = Ok(ReportReply::default());
    until("it is sent again", || agent.plans.stats().reports == 1).await;
    let times = |n| collector.reported.lock().iter().filter(|report| report.probes[0].sent_ns == n).count();
    assert_eq!(times(1), 2);
    *collector.report.lock() = Err(Code::InvalidArgument);
    agent.found(2);
    until("it is dropped", || agent.plans.stats().dropped == 1).await;
    *collector.report.lock() = Ok(ReportReply::default());
    agent.found(3);
    until("the next one is taken", || times(3) == 1).await;
    assert_eq!((times(2), collector.reported.lock().last().map(|report| report.dropped)), (1, Some(1)));
}
