//! Initial inputs of the gRPC methods of agents.

use fabriclens_forwarding_tables::{AdapterPort, Cable, SwitchTables, TellRequest};
use fabriclens_probe_plan::{Hop, PlanRequest, ProbeResult, ProbedPort, ReportRequest, ReportedPair, TracedPath};
use fabriclens_reader_lease::AskRequest;

/// Questions for the lease of a subnet, framed as in gRPC.
pub(crate) fn lease() -> Vec<Vec<u8>> {
    let request =
        |switches: Vec<u64>, reading| framed(&AskRequest { host: "mgmt-01".to_owned(), agent: 7, switches, reading });
    vec![request(vec![0x0002_c903_00a0_0001, 2], true), request(vec![], false)]
}

/// Requests for a probe plan, framed as in gRPC.
pub(crate) fn probe_plans() -> Vec<Vec<u8>> {
    let roce =
        ProbedPort { name: "mlx5_0/1".into(), address: vec![10, 0, 0, 1], queue_pair: 17, ..ProbedPort::default() };
    let infiniband = ProbedPort { address: Vec::new(), lid: 7, source_ports: vec![49_153], ..roce.clone() };
    let request = |ports| framed(&PlanRequest { host: "gpu-01".to_owned(), agent: 1, ports });
    vec![request(vec![roce]), request(vec![infiniband]), request(vec![])]
}

/// Reports of paths and probes, framed as in gRPC.
pub(crate) fn probe_reports() -> Vec<Vec<u8>> {
    let pair = ReportedPair { from: "mlx5_0/1".into(), host: "gpu-02".into(), port: "mlx5_0/1".into() };
    let hops = vec![Hop { addresses: vec![vec![10, 0, 1, 1]] }, Hop::default()];
    let path = TracedPath { pair: 0, source_port: 50_000, traced_ns: 1, hops, complete: true };
    let probe =
        ProbeResult { source_port: 50_000, sent_ns: 1, rtt_ns: Some(9000), transport: 1, ..ProbeResult::default() };
    let report =
        ReportRequest { pairs: vec![pair], paths: vec![path], probes: vec![probe], ..ReportRequest::default() };
    vec![framed(&report)]
}

/// Forwarding tables of one switch with two adapters, framed as in gRPC.
pub(crate) fn forwarding_tables() -> Vec<Vec<u8>> {
    let cable = |port: u32| Cable { port, far_guid: port.into(), far_port: 1 };
    let switch = SwitchTables {
        guid: 16,
        name: "leaf1".to_owned(),
        ports: 4,
        table: vec![255, 1, 2].into(),
        cables: vec![cable(1), cable(2)],
        adaptive: 2,
        ..SwitchTables::default()
    };
    let adapter = |lid: u32| AdapterPort {
        guid: lid.into(),
        port: 1,
        lid,
        lmc: 0,
        host: format!("n{lid}"),
        name: "mlx5_0/1".to_owned(),
    };
    let request = TellRequest {
        host: "mgmt-01".to_owned(),
        complete: true,
        switches: vec![switch],
        adapters: vec![adapter(1), adapter(2)],
        ..TellRequest::default()
    };
    vec![framed(&request)]
}

fn framed(message: &impl prost::Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat()
}
