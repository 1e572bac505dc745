//! Every vendor counter of the reference list that the product promises to know binds to a canonical metric, with
//! the unit, kind, width and overflow behaviour of the list. Reads `counters.csv` under `FABRICLENS_REFERENCE`.

use fabriclens_catalog::counters::{FAMILIES, facts::FACTS};
use fabriclens_catalog::{
    BoundCounter, CounterSource, DriverFamily, LinkLayer, MetricKind, MetricUnit, Overflow, bind,
};

const GROUPS: [&str; 16] = [
    "traffic",
    "pfc",
    "pause",
    "ecn",
    "cnp",
    "congestion_wait",
    "retransmit",
    "timeout",
    "rnr",
    "link_error",
    "fec",
    "buffer_discard",
    "pcie",
    "storm",
    "state",
    "optics",
];

/// Errors of queue pairs are promised too, where the driver counts them for the port.
fn promised(row: &Row, group: &str) -> bool {
    GROUPS.contains(&group) || group == "qp" && row.source == "sysfs_hw_counters" && row.driver != "hfi1"
}

struct Row {
    source: String,
    driver: String,
    name: String,
    kind: String,
    unit: String,
    width: String,
    overflow: String,
}

#[test]
#[ignore = "needs: reference"]
fn every_promised_counter_binds_with_its_unit_kind_and_width() {
    let rows = reference();
    let promised: Vec<&(Row, String)> = rows.iter().filter(|(row, group)| promised(row, group)).collect();
    assert!(promised.len() > 1800, "only {} rows: is this the right list?", promised.len());
    let (mut bound, mut facts, mut wrong) = (0, 0, Vec::new());
    for (row, _) in promised {
        if FACTS.iter().any(|f| f.name == row.name) {
            facts += 1;
            continue;
        }
        match bind_row(row) {
            None => wrong.push(format!("{} {} {}: unknown", row.source, row.driver, row.name)),
            Some(b) => {
                bound += 1;
                wrong.extend(
                    complaints(row, &b).map(|c| format!("{} {} → {}: {c}", row.driver, row.name, b.metric.name)),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    println!("{bound} counters bound, {facts} facts");
}

/// Rows of the list, each with its group.
fn reference() -> Vec<(Row, String)> {
    let path = fabriclens_testing::reference().join("counters.csv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let records = csv(&text);
    let column = |name: &str| records[0].iter().position(|c| c == name).unwrap();
    let columns = ["source", "driver", "name", "kind", "unit", "width_bits", "overflow", "group"].map(column);
    let row = |r: &Vec<String>| {
        let [source, driver, name, kind, unit, width, overflow, group] = columns.map(|i| r[i].clone());
        (Row { source, driver, name, kind, unit, width, overflow }, group)
    };
    records[1..].iter().map(row).collect()
}

/// Records of a CSV with quoted fields.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            '\r' if !quoted => {}
            _ => field.push(c),
        }
    }
    records
}

/// Binds the row as a sampler would meet it: placeholders filled, the prefix of its folder gone.
fn bind_row(row: &Row) -> Option<BoundCounter> {
    let name = concrete(&row.name);
    let (source, name) = match row.source.as_str() {
        "ethtool" => (CounterSource::Ethtool, name.trim_start_matches("loopback/")),
        "ethtool_std" => (CounterSource::EthtoolStd, &*name),
        "dcbnl" => (CounterSource::Dcb, &*name),
        "sysfs_counters" => (CounterSource::SysfsCounters, &*name),
        "ib_pma_mad" => (CounterSource::PmaMad, &*name),
        "proc_netstat" => (CounterSource::ProcNet, &*name),
        "sysfs_hw_counters" | "rdma_netlink" => match name.strip_prefix("device/") {
            Some(name) => (CounterSource::DeviceHwCounters, name),
            None => (CounterSource::HwCounters, &*name),
        },
        _ => [
            ("net/statistics/", CounterSource::NetStatistics),
            ("pci/", CounterSource::Pci),
            ("module/", CounterSource::Module),
        ]
        .into_iter()
        .find_map(|(prefix, source)| Some((source, name.strip_prefix(prefix)?)))
        .unwrap_or((CounterSource::Other, &*name)),
    };
    let link = match source {
        CounterSource::SysfsCounters | CounterSource::PmaMad => LinkLayer::InfiniBand,
        _ => LinkLayer::Ethernet,
    };
    let family = match row.driver.as_str() {
        "any" | "ib_core" => None,
        driver => {
            let by_name = || FAMILIES.iter().copied().find(|f| f.name == driver);
            let family = DriverFamily::for_driver(driver).or_else(by_name);
            Some(family.unwrap_or_else(|| panic!("no family for driver {driver}")))
        }
    };
    bind(family, link, source, name)
}

fn concrete(name: &str) -> String {
    let mut out = name.replace("{reporter}", "fw").replace("{dev}", "mlx5_0");
    while let Some(open) = out.find('{') {
        let close = open + out[open..].find('}').unwrap();
        let value = match &out[open + 1..close] {
            "low" => "65",
            "high" => "127",
            _ => "3",
        };
        out.replace_range(open..=close, value);
    }
    out
}

/// What does not agree with the reference row.
fn complaints(row: &Row, b: &BoundCounter) -> impl Iterator<Item = String> {
    let mut out = Vec::new();
    let kind_fits = match row.kind.as_str() {
        "counter" => b.metric.kind == MetricKind::Counter,
        "gauge" => b.metric.kind == MetricKind::Gauge,
        // Asynchronous events are listed as state, but counted.
        _ => b.metric.kind == MetricKind::Gauge || row.unit == "events",
    };
    if !kind_fits {
        out.push(format!("{} became {:?}", row.kind, b.metric.kind));
    }
    if !unit_fits(&row.unit, b.metric.unit, b.scale) {
        out.push(format!("{} became {:?} × {}", row.unit, b.metric.unit, b.scale));
    }
    if row.kind == "counter" {
        // Drivers that extend narrow registers, and sizes that only firmware knows, count as 64.
        let width = row.width.parse::<u8>().unwrap_or(64);
        if b.counter.width != width {
            out.push(format!("{} bits, should be {width}", b.counter.width));
        }
        let saturates = row.overflow == "saturate" || row.overflow == "unknown" && width < 64;
        let expected = if saturates && width < 64 { Overflow::Saturate } else { Overflow::Wrap };
        if b.counter.overflow != expected {
            out.push(format!("{:?}, should be {expected:?}", b.counter.overflow));
        }
    }
    out.into_iter()
}

fn unit_fits(listed: &str, unit: MetricUnit, scale: f64) -> bool {
    let count = matches!(unit, MetricUnit::Count(_)) && scale == 1.0;
    match listed {
        "packets" | "events" | "messages" | "blocks" | "symbols" | "segments" | "wrs" | "objects" | "raw"
        | "bit-times" | "lanes" => count,
        "bytes" => unit == MetricUnit::Bytes && scale == 1.0,
        "words4" => unit == MetricUnit::Bytes && scale == 4.0,
        "words8" => unit == MetricUnit::Bytes && scale == 8.0,
        // Flits are 8 bytes where they carry data, ticks where nothing was sent.
        "flits" => unit == MetricUnit::Count("{tick}") && count || unit == MetricUnit::Bytes && scale == 8.0,
        "ticks" => unit == MetricUnit::Count("{tick}") && count || unit == MetricUnit::Bytes && scale > 0.0,
        "bits" => unit == MetricUnit::Count("{bit}") && count || unit == MetricUnit::Bytes && scale == 0.125,
        "seconds" => unit == MetricUnit::Seconds && scale == 1.0,
        "us" => unit == MetricUnit::Seconds && scale == 1e-6,
        "ms" => unit == MetricUnit::Seconds && scale == 1e-3,
        "percent" => unit == MetricUnit::Ratio && scale == 0.01,
        "milli-C" => unit == MetricUnit::Celsius && scale == 1e-3,
        "100uV" => unit == MetricUnit::Volts && scale == 1e-4,
        "2uA" => unit == MetricUnit::Amperes && scale == 2e-6,
        "0.1uW" => unit == MetricUnit::Watts && scale == 1e-7,
        "GT/s" => unit == MetricUnit::Count("{transfer}/s") && scale == 1e9,
        "Gb/s" => unit == MetricUnit::BytesPerSecond && scale == 1e9 / 8.0,
        "Mb/s" => unit == MetricUnit::BytesPerSecond && scale == 1e6 / 8.0,
        "bitmask" | "bool" | "code" | "count" | "enum" | "id" | "index" | "param" | "rate" | "tos" => {
            unit == MetricUnit::None && scale == 1.0
        }
        _ => false,
    }
}
