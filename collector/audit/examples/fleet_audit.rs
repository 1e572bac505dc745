//! Cost of the first audit of a made-up fleet: every key has a value at each port, and the first ports have another one in one key.
//!
//! `cargo run --release -p fabriclens-audit --example fleet_audit -- [HOSTS [WRONG_PORTS]]`; a host has eight ports.

use std::sync::Arc;
use std::time::Duration;

use fabriclens_audit::{Auditor, KEYS, Reading, Services, run};
use fabriclens_config::Config;
use fabriclens_core::host_senders::HostSenders;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ms;
use fabriclens_data::Data;
use fabriclens_forward::Sink;
use fabriclens_model::Labels;
use fabriclens_promql::Engine;
use fabriclens_store::{Options, RowGroup, Store};
use fabriclens_topology::Topologies;

const PORTS: usize = 8;

/// Series of a port with their values.
fn port(host: usize, rail: usize, wrong: bool) -> Vec<(Labels, f64)> {
    let (name, device, rail) = (format!("gpu-{host:05}"), format!("mlx5_{rail}"), rail.to_string());
    let of = |metric: &str, more: &[(&str, &str)]| {
        let port = [("__name__", metric), ("host", &name), ("device", &device), ("port", "1"), ("rail", &rail)];
        Labels::new(port.into_iter().chain(more.iter().copied()))
    };
    let facts =
        [("fabric", "roce"), ("link_layer", "Ethernet"), ("model", "MT4129"), ("board", "MT_1"), ("roce", "v2")];
    let mut series = vec![(of("fabric_port_info", &facts), 1.0), (of("fabric_port_up", &[]), 1.0)];
    for (at, key) in KEYS.iter().enumerate() {
        let value = if wrong && at == 0 { 0.0 } else { 1.0 };
        match key.reading {
            Reading::Number(metric, _) => series.push((of(metric, &[]), value)),
            Reading::Set(by) | Reading::Map(by) => series.extend((0..8).map(|entry| {
                let entry = entry.to_string();
                let labels: Vec<_> = by.only.into_iter().chain([(by.by, entry.as_str())]).collect();
                (of(by.metric, &labels), value)
            })),
            Reading::Info(_) => {}
        }
    }
    series
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |at, default| std::env::args().nth(at).map_or(Ok(default), |number| number.parse::<usize>());
    let (hosts, wrong) = (argument(1, 2_000)?, argument(2, 0)?);
    let dir = tempfile::tempdir()?;
    let config = Config { data: dir.path().to_owned(), ..Config::default() };
    let telemetry = Telemetry::new()?;
    let store = Arc::new(Store::open(dir.path(), Options { background: false, ..Options::default() })?);
    let mut series = 0;
    for (host, rail) in (0..hosts).flat_map(|host| (0..PORTS).map(move |rail| (host, rail))) {
        let (labels, values): (Vec<Labels>, Vec<f64>) =
            port(host, rail, host * PORTS + rail < wrong).into_iter().unzip();
        series += values.len();
        store.append(&[RowGroup { series: labels.into_iter().collect(), times: vec![now_ms()], values }])?;
    }
    let services = Services {
        data: Arc::new(Data::new(store.clone(), &config, &telemetry)?),
        engine: Engine::default(),
        topologies: Arc::new(Topologies::open(&store, &config, HostSenders::default())?),
        sink: Arc::new(Sink::start(store.clone(), &config, &telemetry)?),
        store,
        telemetry: telemetry.clone(),
    };
    let auditor = Arc::new(Auditor::new(Vec::new()));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let audits = tokio::spawn(run(auditor.clone(), services, |_| {}, stopped));
    while auditor.report().time_ms == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.send(true)?;
    audits.await?;
    let report = auditor.report();
    if let Some(error) = &report.error {
        return Err(error.clone().into());
    }
    println!(
        "{} ports, {series} series of settings: {:.2} s, {} findings",
        report.compared,
        telemetry.audit_seconds.get_sample_sum(),
        report.drifts.len() + report.more
    );
    Ok(())
}
