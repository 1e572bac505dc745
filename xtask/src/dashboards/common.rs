//! PromQL that several dashboards and alerts share.

/// Selects RDMA ports (a management interface has no port number) of the selected hosts.
pub const PORTS: &str = r#"host=~"$host",port!="""#;
/// Selects RDMA ports of the selected hosts and devices.
pub const OF_DEVICE: &str = r#"host=~"$host",device=~"$device",port!="""#;

/// Labels of a port; scrapes may add others.
pub const BY: &str = "host, device, port";
/// Agents with a sample in the last minute.
pub const HEARD: &str = "time() - timestamp(fabriclens_agent_start_time_seconds) < 60";
/// Rate window in Grafana.
const INTERVAL: &str = "$__rate_interval";

/// Share of time paused, of the priority that was paused longest; by 802.3x pause if the adapter does not count PFC time.
pub fn paused(direction: &str, chosen: &str) -> String {
    paused_over(&format!(r#"direction="{direction}",{chosen}"#), INTERVAL)
}

/// As [`paused`], with any selector and window.
pub fn paused_over(selected: &str, window: &str) -> String {
    let of = |name: &str| format!("rate({name}{{{selected}}}[{window}])");
    format!("max by ({BY}) ({} or {})", of("fabric_pfc_pause_seconds_total"), of("fabric_pause_duration_seconds_total"))
}

/// Bits per second of ports.
pub fn bits(direction: &str, chosen: &str) -> String {
    format!(r#"8 * rate(fabric_port_io_bytes_total{{direction="{direction}",{chosen}}}[$__rate_interval])"#)
}

/// Selector of a metric with matchers, of which some may be empty.
fn with(name: &str, matchers: &[&str]) -> String {
    let matchers: Vec<&str> = matchers.iter().copied().filter(|m| !m.is_empty()).collect();
    if matchers.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", matchers.join(",")) }
}

/// Bytes per second sent by RDMA. InfiniBand and Omni-Path ports do not count RDMA separately: all their traffic counts.
pub fn rdma_sent(chosen: &str) -> String {
    rdma_sent_over(chosen, INTERVAL, "")
}

/// As [`rdma_sent`], with any window and offset.
pub fn rdma_sent_over(chosen: &str, window: &str, offset: &str) -> String {
    let of = |counter: &str| format!("rate({}[{window}]{offset})", with(counter, &["direction=\"transmit\"", chosen]));
    format!(
        "({} or {} and on ({BY}) fabric_port_info{{fabric=~\"infiniband|omnipath\"}}{offset})",
        of("fabric_rdma_io_bytes_total"),
        of("fabric_port_io_bytes_total")
    )
}

/// Share of the line rate that waited for credits. RoCE adapters have this counter without a meaning, so ports that count
/// pause are excluded.
pub fn waits(chosen: &str) -> String {
    format!(
        "rate(fabric_port_xmit_wait_bytes_total{{{chosen}}}[$__rate_interval]) \
         / on (host, device, port) fabric_port_rate_bytes_per_second{{{chosen}}} \
         unless on (host, device, port) fabric_pfc_pause_seconds_total"
    )
}

/// Joins a query about ports with the label `switch`, the switch to which a port is connected.
pub fn with_leaf(ports: &str, chosen: &str) -> String {
    format!(
        "({ports}) * on (host, device, port) group_left (switch) \
         max by (host, device, port, switch) (fabric_port_info{{{chosen}}})"
    )
}

/// As [`with_leaf`], for the selected leaf. Ports with an unknown switch match `.*` only.
pub fn below_leaf(ports: &str) -> String {
    with_leaf(ports, &format!("switch=~\"$leaf\",{PORTS}"))
}

/// Aggregates by leaf; ports with an unknown switch are one group.
pub fn by_leaf(join: &str, ports: &str) -> String {
    format!("label_replace({join} by (switch) ({ports}), \"switch\", \"(unknown)\", \"switch\", \"\")")
}

/// Growth of a counter as the difference of two samples: cheap for any window, and a whole number.
pub fn grown(series: &str, time: &str) -> String {
    format!("clamp_min({series} - {series} offset {time}, 0)")
}

/// Link errors of a port; `how` makes the query of one counter. A lost frame moves the symbol and the CRC counter of an
/// adapter that has both, so the higher of the two counts and not their sum.
fn link_errors(chosen: &str, how: impl Fn(&str) -> String) -> String {
    format!(
        "max by ({BY}) ({} or {})",
        how(&with("fabric_link_symbol_errors_total", &[chosen])),
        how(&with("fabric_link_crc_errors_total", &["direction=\"receive\"", chosen]))
    )
}

/// Number of link errors in a window.
pub fn errors_grown(chosen: &str, time: &str) -> String {
    link_errors(chosen, |series| grown(series, time))
}

/// Link errors per second.
pub fn errors_rate(chosen: &str) -> String {
    link_errors(chosen, |series| format!("rate({series}[{INTERVAL}])"))
}

/// Rate of a counter per port, summed over its other labels (priorities, reasons).
pub fn of_port(counter: &str, chosen: &str) -> String {
    of_port_over(&format!("{counter}{{{chosen}}}"), INTERVAL)
}

/// As [`of_port`], with any selector and window.
pub fn of_port_over(series: &str, window: &str) -> String {
    format!("sum by ({BY}) (rate({series}[{window}]))")
}
