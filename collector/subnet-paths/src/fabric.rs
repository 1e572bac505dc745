//! A small fat tree for tests: `node1` and `node2` at `leaf1`, `node3` and `node4` at `leaf2`, with LIDs 1 to 4, and two
//! spines. Odd LIDs go by `spine1`.

use crate::{Endpoint, SubnetPaths};
use fabriclens_base::Sender;
use fabriclens_forwarding_tables::{AdapterPort, Adaptive, Cable, SwitchTables, TellRequest};
use std::time::Instant;

fn switch(guid: u64, name: &str, table: [u8; 5], far: &[(u64, u32)]) -> SwitchTables {
    let cable = |(at, (far_guid, far_port)): (usize, &(u64, u32))| Cable {
        port: at as u32 + 1,
        far_guid: *far_guid,
        far_port: *far_port,
    };
    SwitchTables {
        guid,
        name: name.into(),
        ports: 4,
        table: table.to_vec().into(),
        cables: far.iter().enumerate().map(cable).collect(),
        adaptive: Adaptive::Off as i32,
        ..SwitchTables::default()
    }
}

/// The whole fabric in one request of agent 5 on `mgmt-01`.
pub(crate) fn request() -> TellRequest {
    let switches = vec![
        switch(0x10, "leaf1", [255, 1, 2, 3, 4], &[(1, 1), (2, 1), (0x20, 1), (0x21, 1)]),
        switch(0x11, "leaf2", [255, 3, 4, 1, 2], &[(3, 1), (4, 1), (0x20, 2), (0x21, 2)]),
        switch(0x20, "spine1", [255, 1, 1, 2, 2], &[(0x10, 3), (0x11, 3)]),
        switch(0x21, "spine2", [255, 1, 1, 2, 2], &[(0x10, 4), (0x11, 4)]),
    ];
    let adapter = |n: u32| AdapterPort {
        guid: n.into(),
        port: 1,
        lid: n,
        lmc: 0,
        host: format!("node{n}"),
        name: "mlx5_0/1".into(),
    };
    TellRequest {
        host: "mgmt-01".into(),
        agent: 5,
        telling: 77,
        complete: true,
        switches,
        adapters: (1..5).map(adapter).collect(),
        ..TellRequest::default()
    }
}

/// Tables after one request.
pub(crate) fn told(request: TellRequest) -> SubnetPaths {
    let paths = SubnetPaths::default();
    assert_eq!(paths.tell(Sender::Bound, request, Instant::now(), |_, _| true), Ok(false));
    paths
}

/// Port of a host.
pub(crate) fn end(host: usize) -> Endpoint {
    Endpoint { host: format!("node{host}"), port: "mlx5_0/1".into(), attached: None }
}
