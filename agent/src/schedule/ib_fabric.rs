//! The thread that reads the InfiniBand subnet, if configured.

use super::core::Core;
use crate::ib_fabric::{Host, IbFabric, open, read_subnet};
use crate::sandbox::Role;
use fabriclens_agent_host::capabilities;

/// Component of its problems in `/healthz`.
const COMPONENT: &str = "InfiniBand subnet";

/// Reads the subnet until the engine stops.
pub(super) fn run(core: &Core, config: &IbFabric) {
    capabilities::without_probes();
    core.settings.sandbox.enter(Role::Plain);
    let problem = |why: Option<String>| match why {
        Some(why) => {
            if core.thread_health.set(COMPONENT, why.clone()) {
                tracing::warn!(why, "InfiniBand subnet is not read, or not as configured; trying again");
            }
        }
        None => _ = core.thread_health.clear(COMPONENT),
    };
    let host = Host {
        open: &|| open(config, &core.roots),
        lease: core.settings.reader_lease.as_deref(),
        tables: core.settings.forwarding_tables.as_deref(),
        clock: &core.clock,
        name: &core.host,
        push: &|section| _ = core.ring.push(section),
        wait: &|until| {
            core.wake_ib_fabric.wait(until);
            core.is_stopping()
        },
        stopping: &|| core.is_stopping(),
        problem: &problem,
    };
    read_subnet(config, &host);
}
