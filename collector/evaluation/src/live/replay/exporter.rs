//! Exporters of Ethernet switches, scraped by Prometheus and forwarded by remote write.

use super::form::{Form, Message, Point, RX, Reading, TX, counter};
use super::remote_write::{Scraped, request};

/// Time between two scrapes, ms: Prometheus' default is a minute, what is common for switches a quarter of that.
pub const SCRAPE_MS: i64 = 15_000;
/// Prometheus keeps samples up to this long before it sends them, ms (`batch_send_deadline`).
pub const BATCH_MS: i64 = 5000;

/// vinted/sonic-exporter.
pub static SONIC: Form = Form {
    name: "sonic_exporter",
    period_ms: SCRAPE_MS,
    delay_ms: BATCH_MS,
    counters: &[
        counter("fabric_port_io_bytes_total", &[TX], "sonic_interface_transmit_bytes_total"),
        counter("fabric_port_io_bytes_total", &[RX], "sonic_interface_receive_bytes_total"),
        counter("fabric_port_discards_total", &[("reason", "buffer")], "sonic_interface_receive_errs_total")
            .with(&[("type", "discard")]),
        counter("fabric_link_crc_errors_total", &[RX], "sonic_interface_receive_errs_total").with(&[("type", "error")]),
        counter("fabric_port_rate_bytes_per_second", &[], "sonic_interface_speed_bytes"),
    ],
    messages: sonic,
};

/// prometheus/snmp_exporter with IF-MIB, EtherLike-MIB and Mellanox' MIB of priorities, scraped every ten seconds.
pub static SNMP: Form = Form {
    name: "snmp",
    period_ms: 10_000,
    delay_ms: BATCH_MS,
    counters: &[
        counter("fabric_port_io_bytes_total", &[TX], "ifHCOutOctets"),
        counter("fabric_port_io_bytes_total", &[RX], "ifHCInOctets"),
        counter("fabric_port_discards_total", &[("reason", "buffer")], "ifInDiscards"),
        counter("fabric_link_crc_errors_total", &[RX], "dot3HCStatsFCSErrors"),
        counter("fabric_port_rate_bytes_per_second", &[], "ifHighSpeed").times(8e-6),
        counter("fabric_pfc_frames_total", &[RX], "mellanoxQosPrioRxPausePkts"),
        counter("fabric_pfc_frames_total", &[TX], "mellanoxQosPrioTxPausePkts"),
        counter("fabric_pfc_pause_seconds_total", &[RX], "mellanoxQosPrioRxPauseDuration").times(1e6),
        counter("fabric_pfc_pause_seconds_total", &[TX], "mellanoxQosPrioTxPauseDuration").times(1e6),
    ],
    messages: snmp,
};

/// Labels of a series under its name, with those of its row.
fn scraped(point: &Point, labels: Vec<(&'static str, String)>) -> Scraped {
    let more = point.attributes.iter().map(|(name, text)| (*name, (*text).to_owned()));
    (point.name.clone(), labels.into_iter().chain(more).collect(), point.value)
}

fn sonic(reading: &Reading) -> Vec<Message> {
    let series = reading.points.iter().map(|point| {
        let target = [("instance", format!("{}:9101", reading.switch)), ("job", "sonic".to_owned())];
        scraped(point, target.into_iter().chain([("device", point.port.clone())]).collect())
    });
    vec![Message::RemoteWrite(request(reading.time_ms, series))]
}

fn snmp(reading: &Reading) -> Vec<Message> {
    let series = reading.points.iter().map(|point| {
        let target = [("instance", reading.switch.clone()), ("job", "snmp".to_owned())];
        let port = [("ifIndex", point.port.clone()), ("ifName", point.port.clone())];
        let priority = Some(("mellanoxQosPrio", point.priority.clone())).filter(|(_, text)| !text.is_empty());
        scraped(point, target.into_iter().chain(port).chain(priority).collect())
    });
    vec![Message::RemoteWrite(request(reading.time_ms, series))]
}
