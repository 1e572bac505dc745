//! Exporters of InfiniBand fabrics, scraped by Prometheus and forwarded by remote write. One scrape reads all switches; here
//! each switch has its own phase, which is harder.

use super::exporter::{BATCH_MS, SCRAPE_MS};
use super::form::{Form, Message, RX, Reading, TX, address, counter};
use super::remote_write::{Scraped, request};
use std::net::IpAddr;

/// treydock/infiniband_exporter: switches by GUID, whose names another series tells.
pub static TREYDOCK: Form = Form {
    name: "treydock",
    period_ms: SCRAPE_MS,
    delay_ms: BATCH_MS,
    counters: &[
        counter("fabric_port_io_bytes_total", &[TX], "infiniband_switch_port_transmit_data_bytes_total"),
        counter("fabric_port_io_bytes_total", &[RX], "infiniband_switch_port_receive_data_bytes_total"),
        counter("fabric_port_packets_total", &[TX], "infiniband_switch_port_transmit_packets_total"),
        counter("fabric_port_packets_total", &[RX], "infiniband_switch_port_receive_packets_total"),
        counter("fabric_port_discards_total", &[TX], "infiniband_switch_port_transmit_discards_total"),
        counter("fabric_link_symbol_errors_total", &[], "infiniband_switch_port_symbol_error_total"),
        counter("fabric_link_receive_errors_total", &[], "infiniband_switch_port_receive_errors_total"),
        counter("fabric_link_recoveries_total", &[], "infiniband_switch_port_link_error_recovery_total"),
        counter("fabric_link_downs_total", &[], "infiniband_switch_port_link_downed_total"),
        counter("fabric_port_rate_bytes_per_second", &[], "infiniband_switch_port_rate_bytes_per_second"),
    ],
    messages: treydock,
};

/// guilbaults/infiniband-exporter: data in words of four bytes, no rate.
pub static GUILBAULTS: Form = Form {
    name: "guilbaults",
    period_ms: 10_000,
    delay_ms: BATCH_MS,
    counters: &[
        counter("fabric_port_io_bytes_total", &[TX], "infiniband_portxmitdata_total").times(0.25),
        counter("fabric_port_io_bytes_total", &[RX], "infiniband_portrcvdata_total").times(0.25),
        counter("fabric_port_packets_total", &[TX], "infiniband_portxmitpkts_total"),
        counter("fabric_port_packets_total", &[RX], "infiniband_portrcvpkts_total"),
        counter("fabric_port_discards_total", &[TX], "infiniband_portxmitdiscards_total"),
        counter("fabric_link_symbol_errors_total", &[], "infiniband_symbolerrorcounter_total"),
        counter("fabric_link_receive_errors_total", &[], "infiniband_portrcverrors_total"),
        counter("fabric_link_recoveries_total", &[], "infiniband_linkerrorrecoverycounter_total"),
        counter("fabric_link_downs_total", &[], "infiniband_linkdownedcounter_total"),
        counter("fabric_port_width", &[], "infiniband_width"),
    ],
    messages: guilbaults,
};

/// GUID of a switch.
fn guid(switch: &str) -> String {
    let IpAddr::V4(address) = address(switch) else { unreachable!("nodes have addresses of four bytes") };
    format!("0x5c25730300{:06x}", u32::from(address) & 0xff_ffff)
}

fn treydock(reading: &Reading) -> Vec<Message> {
    let target = || [("instance", "monitor:9315".to_owned()), ("guid", guid(&reading.switch))];
    let described = [("switch", format!("MF0;{}:MQM8700/U1", reading.switch)), ("lid", "4".to_owned())];
    let info: Scraped = ("infiniband_switch_info".to_owned(), target().into_iter().chain(described).collect(), 1.0);
    let series = reading.points.iter().map(|point| {
        let labels = target().into_iter().chain([("port", point.port.clone()), ("switch", reading.switch.clone())]);
        (point.name.clone(), labels.collect(), point.value)
    });
    vec![Message::RemoteWrite(request(reading.time_ms, series.chain([info])))]
}

fn guilbaults(reading: &Reading) -> Vec<Message> {
    let series = reading.points.iter().map(|point| {
        let own = [
            ("instance", "monitor:9683".to_owned()),
            ("component", "switch".to_owned()),
            ("local_name", format!("MF0;{}:MQM8700/U1", reading.switch)),
            ("local_guid", guid(&reading.switch)),
            ("local_port", point.port.clone()),
        ];
        (point.name.clone(), own.to_vec(), point.value)
    });
    vec![Message::RemoteWrite(request(reading.time_ms, series))]
}
