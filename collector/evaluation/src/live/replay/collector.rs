//! A collector that is fed a run second by second, with a clock of its own.

use super::super::tests::state_of;
use super::super::*;
use super::agent::Agents;
use super::form::{Form, Message, Reading, address};
use super::recorded::{Run, Verdicts, verdicts};
use fabriclens_config::{Config, Switches};
use fabriclens_core::protocol::Protocol;
use fabriclens_correlate::Severity;
use fabriclens_correlate::recording::PortSample;
use fabriclens_gnmi::{MessageReader, streams};
use fabriclens_incidents::Filter;
use fabriclens_ingest::{Compression, Ingest, Report};
use fabriclens_jobs::{JobKey, JobRecord, Source};
use fabriclens_model::{Matcher, Read as _, Series};
use fabriclens_server::auth::Caller;
use fabriclens_server::body::unsnap;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// A decompressed request has at most this many bytes.
const LIMIT: usize = 64 << 20;
/// The jobs began this long before the run, ms.
const JOBS_MS: i64 = 86_400_000;

/// See the module.
pub struct Collector {
    live: LiveEvaluation,
    ingest: Arc<Ingest>,
    runtime: tokio::runtime::Runtime,
    agents: Agents,
    gnmi: HashMap<(String, &'static str), MessageReader>,
    /// Begin of the run, Unix ms.
    began: i64,
    _data: tempfile::TempDir,
}

impl Collector {
    /// A collector that knows the topology and the jobs of a run.
    pub fn new(run: &Run) -> Self {
        let data = tempfile::tempdir().unwrap();
        let topology = vec![run.dir.join("topology.json")];
        let state = state_of(Config { data: data.path().join("data"), topology, ..Config::default() });
        state.sink.sample_feed().open();
        let began = now_ms() / 60_000 * 60_000 - 3_600_000;
        for (job, hosts) in &run.jobs {
            let key = JobKey { cluster: String::new(), id: job.clone() };
            let hosts = hosts.iter().map(|host| (host.clone(), Default::default())).collect();
            let start_ns = Some((began - JOBS_MS) * 1_000_000);
            let record = JobRecord { start_ns, hosts, ..JobRecord::default() };
            state.jobs.registry.begin(Source::Http, &key, record, began * 1_000_000).unwrap();
        }
        let addresses = run.switches().map(|switch| (address(switch), switch.to_owned())).collect();
        let switches = Switches { addresses, ..Switches::default() };
        let (sink, telemetry) = (state.sink.clone(), state.telemetry.clone());
        let (limits, pressure) = (state.config.ingest, state.pressure.clone());
        let (store, probing) = (state.store.clone(), state.probing.clone());
        let ingest = Arc::new(Ingest::new(store, sink, telemetry, limits, switches, pressure, probing));
        ingest.name_switches_as(run.switches().map(str::to_owned));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let late = Arc::new(LateSamples::open(&state, began));
        let live = LiveEvaluation::new(state, late, Vec::new());
        Self { live, ingest, runtime, agents: Agents::default(), gnmi: HashMap::new(), began, _data: data }
    }

    /// Replays the samples of a run, those of its switches in a form; returns what was found.
    pub fn replay(&mut self, run: &Run, samples: &[PortSample], form: Option<&Form>) -> Verdicts {
        let mut on_the_way: VecDeque<(i64, Message)> = VecDeque::new();
        let times = samples.chunk_by(|a, b| a.time_ms == b.time_ms);
        for now in times {
            let time_ms = self.began + now[0].time_ms;
            let mut by_node: BTreeMap<&str, Vec<&PortSample>> = BTreeMap::new();
            now.iter().for_each(|sample| by_node.entry(sample.series[0].get("host")).or_default().push(sample));
            for (node, ports) in by_node {
                match form.filter(|_| run.is_switch(node)) {
                    None => {
                        let body = self.agents.request(&ports, self.began - 1000, time_ms);
                        on_the_way.push_back((time_ms, Message::Otlp(address(node), body)));
                    }
                    Some(form) => {
                        let points = ports.iter().flat_map(|sample| form.points(sample)).collect();
                        let reading = Reading { switch: node.to_owned(), time_ms, points };
                        let arrives = time_ms + form.delay_ms;
                        on_the_way.extend((form.messages)(&reading).into_iter().map(|message| (arrives, message)));
                    }
                }
            }
            let all = std::mem::take(&mut on_the_way);
            let (due, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|(arrives, _)| *arrives <= time_ms);
            on_the_way = later.into();
            self.deliver(due.into_iter().map(|(_, message)| message), time_ms);
            self.live.next = Instant::now();
            self.live.round(time_ms + 100);
        }
        self.verdicts()
    }

    fn deliver(&mut self, messages: impl Iterator<Item = Message>, now_ms: i64) {
        let mut requests = tokio::task::JoinSet::new();
        let guard = self.runtime.enter();
        for message in messages {
            let ingest = self.ingest.clone();
            match message {
                Message::Otlp(from, body) => requests.spawn(async move {
                    let caller = Caller::anonymous(from);
                    ingest.otlp(Protocol::OtlpGrpc, caller, Compression::None, body.into()).await
                }),
                Message::RemoteWrite(body) => requests.spawn(async move {
                    let plain = unsnap("snappy", &body, LIMIT).unwrap();
                    let caller = Caller::anonymous(IpAddr::from([10, 0, 0, 9]));
                    ingest.remote_write(Protocol::RemoteWrite, caller, false, plain.into()).await
                }),
                Message::Gnmi(switch, kind, name, body) => {
                    let telemetry = &self.live.state.telemetry;
                    let stream = || streams(kind).iter().find(|stream| stream.name == name).unwrap();
                    let new = || MessageReader::new(&switch, stream(), telemetry);
                    let groups = self.gnmi.entry((switch.clone(), name)).or_insert_with(new).read(&body, now_ms);
                    self.live.state.sink.append(groups.unwrap()).unwrap();
                    continue;
                }
            };
        }
        drop(guard);
        let answers: Vec<Report> = self.runtime.block_on(requests.join_all()).into_iter().map(Result::unwrap).collect();
        for report in answers {
            assert_eq!(report.rejected(), 0, "{}", report.message());
        }
    }

    /// The verdicts of all incidents so far.
    fn verdicts(&self) -> Verdicts {
        let list = |severity| self.live.state.incidents.list(&Filter { severity, ..Filter::default() });
        let all = [list(None), list(Some(Severity::Info))].concat();
        verdicts(all.iter().map(|record| &record.incident))
    }

    /// Stored series of a node.
    pub fn stored(&self, node: &str) -> Vec<Series> {
        self.live.state.store.select(&[Matcher::equal("host", node)], 0, i64::MAX).unwrap()
    }
}
