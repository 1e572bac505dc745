//! State and identity of a port; other series are joined with these facts.

use super::units::*;

metrics! {
    PORT_INFO, Info, Port, "fabric.port.info", None,
        ["board", "driver", "fabric", "firmware", "function", "gid_types", "hw_rev", "lag", "link_layer", "model", "netdev", "node_desc",
         "node_guid", "node_type", "numa_node", "pci_address", "phys_port_name", "port_guid", "rail", "rail_source", "roce", "switch", "switch_address", "switch_id", "switch_port",
         "system_guid"],
        "Identity of the port: netdev, kind of fabric (`infiniband`, `roce`, `iwarp`, `efa`, `omnipath`, `ethernet`), driver, firmware, GUIDs, PCI address, NUMA node, rail and how it is known (`config`, or `order` of PCI addresses), RoCE versions, LAG, switch, its management address (LLDP) and switch port. Unknown facts are left out.";
    PORT_STATE, Gauge, Port, "fabric.port.state", None, [],
        "Logical state: 1 down, 2 init, 3 armed, 4 active, 5 active-defer.";
    PORT_PHYSICAL_STATE, Gauge, Port, "fabric.port.physical_state", None, [],
        "Physical state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery, 7 PHY test.";
    PORT_UP, Gauge, Port, "fabric.port.up", None, [],
        "1 when the port can carry data (active), 0 otherwise.";
    PORT_RATE, Gauge, Port, "fabric.port.rate", BytesPerSecond, [],
        "Negotiated data rate, one direction.";
    PORT_RATE_MAX, Gauge, Port, "fabric.port.rate.max", BytesPerSecond, [],
        "Highest data rate the port supports.";
    PORT_WIDTH, Gauge, Port, "fabric.port.width", Count("{lane}"), [],
        "Negotiated lanes (1X, 2X, 4X, 8X, 12X).";
    PORT_MTU, Gauge, Port, "fabric.port.mtu", Bytes, [],
        "Active RDMA path MTU.";
    PORT_MTU_MAX, Gauge, Port, "fabric.port.mtu.max", Bytes, [],
        "Largest RDMA path MTU the port supports.";
    PORT_LID, Gauge, Port, "fabric.port.lid", None, [],
        "Base LID; 0 on Ethernet, 65535 not yet configured.";
    PORT_SM_LID, Gauge, Port, "fabric.port.sm.lid", None, [],
        "LID of the subnet manager; 0 on Ethernet.";
    PORT_SM_SL, Gauge, Port, "fabric.port.sm.sl", None, [],
        "Service level towards the subnet manager.";
    PORT_LMC, Gauge, Port, "fabric.port.lmc", None, [],
        "LID mask count.";
    PORT_CAPABILITIES, Gauge, Port, "fabric.port.capabilities", None, [],
        "Port capability mask.";
    PORT_SMI, Gauge, Port, "fabric.port.smi", None, [],
        "1 when the port has a subnet management interface.";
    PORT_GIDS, Gauge, Port, "fabric.port.gids", Count("{entry}"), ["type"],
        "Used entries of the GID table by type: `ib`, `roce_v1`, `roce_v2`.";
    PORT_PKEYS, Gauge, Port, "fabric.port.pkeys", Count("{entry}"), [],
        "Used entries of the partition key table.";
    PORT_ASYNC_EVENTS, Counter, Port, "fabric.port.async_events", EVENTS, ["event"],
        "Asynchronous events of the port or device since the agent started.";
    COUNTER_LIFESPAN, Gauge, Port, "fabric.port.counter.lifespan", Seconds, [],
        "Time for which the driver returns cached hardware counters.";
    WAIT_TICK, Gauge, Port, "fabric.port.wait.tick", None, [],
        "Tick code of the wait counters: a tick is (code + 1) symbol times.";
    HOST_INFO, Info, Host, "fabric.host.info", None, ["arch", "boot_id", "kernel", "os"],
        "The host: kernel, distribution, architecture, boot id.";
    HOST_PORTS, Gauge, Host, "fabric.host.ports", Count("{port}"), ["fabric"],
        "Ports found on the host by kind of fabric; 0 on a host without RDMA.";
}
