//! Questions that several dashboards ask, written once.

/// Ports that carry RDMA (a host's management interface has no port number), as chosen at the top.
pub const PORTS: &str = r#"host=~"$host",port!="""#;
/// Those of the one host and device that are chosen.
pub const OF_DEVICE: &str = r#"host=~"$host",device=~"$device",port!="""#;

/// A port, however many other labels a scrape adds.
pub const BY: &str = "host, device, port";
/// Agents heard of in the last minute.
pub const HEARD: &str = "time() - timestamp(fabriclens_agent_start_time_seconds) < 60";
/// How far back Grafana looks for a rate.
const INTERVAL: &str = "$__rate_interval";

/// Share of time paused, of the priority that was paused longest; where the adapter knows no PFC times, by 802.3x.
pub fn paused(direction: &str, chosen: &str) -> String {
    paused_over(&format!(r#"direction="{direction}",{chosen}"#), INTERVAL)
}

/// The same of any selection, over a window.
pub fn paused_over(selected: &str, window: &str) -> String {
    let of = |name: &str| format!("rate({name}{{{selected}}}[{window}])");
    format!("max by ({BY}) ({} or {})", of("fabric_pfc_pause_seconds_total"), of("fabric_pause_duration_seconds_total"))
}

/// Bits a second through ports.
pub fn bits(direction: &str, chosen: &str) -> String {
    format!(r#"8 * rate(fabric_port_io_bytes_total{{direction="{direction}",{chosen}}}[$__rate_interval])"#)
}

/// Series of a name that fit all of these; some may be empty.
fn with(name: &str, matchers: &[&str]) -> String {
    let matchers: Vec<&str> = matchers.iter().copied().filter(|m| !m.is_empty()).collect();
    if matchers.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", matchers.join(",")) }
}

/// Bytes a second that RDMA sent. Ports of InfiniBand and Omni-Path count no RDMA of their own: there all is RDMA, IPoIB too.
pub fn rdma_sent(chosen: &str) -> String {
    rdma_sent_over(chosen, INTERVAL, "")
}

/// The same over a window, some time ago.
pub fn rdma_sent_over(chosen: &str, window: &str, offset: &str) -> String {
    let of = |counter: &str| format!("rate({}[{window}]{offset})", with(counter, &["direction=\"transmit\"", chosen]));
    format!(
        "({} or {} and on ({BY}) fabric_port_info{{fabric=~\"infiniband|omnipath\"}}{offset})",
        of("fabric_rdma_io_bytes_total"),
        of("fabric_port_io_bytes_total")
    )
}

/// Share of the line rate that could not be sent for want of credits. RoCE adapters have this counter too, and there it
/// tells nothing, so ports that know pause are left out.
pub fn waits(chosen: &str) -> String {
    format!(
        "rate(fabric_port_xmit_wait_bytes_total{{{chosen}}}[$__rate_interval]) \
         / on (host, device, port) fabric_port_rate_bytes_per_second{{{chosen}}} \
         unless on (host, device, port) fabric_pfc_pause_seconds_total"
    )
}

/// What is asked of ports, with the switch that each is wired to as a label.
pub fn with_leaf(ports: &str, chosen: &str) -> String {
    format!(
        "({ports}) * on (host, device, port) group_left (switch) \
         max by (host, device, port, switch) (fabric_port_info{{{chosen}}})"
    )
}

/// The same, of those below the chosen leaf. A port without a known switch is below `.*` alone.
pub fn below_leaf(ports: &str) -> String {
    with_leaf(ports, &format!("switch=~\"$leaf\",{PORTS}"))
}

/// One value for each leaf; ports whose switch nobody tells are together.
pub fn by_leaf(join: &str, ports: &str) -> String {
    format!("label_replace({join} by (switch) ({ports}), \"switch\", \"(not told)\", \"switch\", \"\")")
}

/// How much a counter grew: a difference of two samples, which costs two, however long, and is a whole number.
pub fn grown(series: &str, time: &str) -> String {
    format!("clamp_min({series} - {series} offset {time}, 0)")
}

/// Errors of the wire at a port, as `how` asks for one counter. A frame that is lost moves the symbols and the CRC counter
/// of an adapter that has both, so it is the higher of the two and not their sum; many adapters have but one.
fn errors_of_wire(chosen: &str, how: impl Fn(&str) -> String) -> String {
    format!(
        "max by ({BY}) ({} or {})",
        how(&with("fabric_link_symbol_errors_total", &[chosen])),
        how(&with("fabric_link_crc_errors_total", &["direction=\"receive\"", chosen]))
    )
}

/// How many came in a time.
pub fn errors_grown(chosen: &str, time: &str) -> String {
    errors_of_wire(chosen, |series| grown(series, time))
}

/// How many come in a second.
pub fn errors_rate(chosen: &str) -> String {
    errors_of_wire(chosen, |series| format!("rate({series}[{INTERVAL}])"))
}

/// The sum of a counter over what is counted of a port: priorities, reasons.
pub fn of_port(counter: &str, chosen: &str) -> String {
    of_port_over(&format!("{counter}{{{chosen}}}"), INTERVAL)
}

/// The same of any series, over a window.
pub fn of_port_over(series: &str, window: &str) -> String {
    format!("sum by ({BY}) (rate({series}[{window}]))")
}
