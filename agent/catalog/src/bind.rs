//! From a vendor's name to the canonical metric with its labels.
//! Called by the agent whenever a device's list of names is new, so it costs about a microsecond per name.

use std::collections::HashMap;

use crate::family::{generic_index, source_rank};
use crate::metrics::{congestion, traffic};
use crate::{CounterSource, DriverFamily, LinkLayer, Metric, MetricKind, VendorCounter};

/// A vendor counter bound to its metric.
#[derive(Clone, Debug)]
pub struct BoundCounter {
    /// The row that matched (width, overflow, `adds`).
    pub counter: &'static VendorCounter,
    /// The metric on this kind of link; not always the row's own.
    pub metric: &'static Metric,
    /// All labels beside the identity, sorted by name, placeholders resolved (`priority="3"`).
    pub labels: Vec<(&'static str, String)>,
    /// Exported value = raw value × scale.
    pub scale: f64,
    /// Several readings of a port with the same metric and labels: the lowest rank counts; at equal rank
    /// they add up when the row `adds` and are spellings of one counter (take the first) when not.
    pub rank: u16,
}

/// Binds a vendor's name read from `source` on a port of that link layer; `None` for names no row knows and for
/// counters that say nothing on that link. Tolerates blanks around the name and hfi1's `,32` behind it.
pub fn bind(
    family: Option<&'static DriverFamily>,
    link: LinkLayer,
    source: CounterSource,
    vendor_name: &str,
) -> Option<BoundCounter> {
    let name = vendor_name.trim();
    let name = name.strip_suffix(",32").unwrap_or(name);
    let own = family.and_then(|f| f.index().find(source, name));
    let (counter, values) = own.or_else(|| generic_index().find(source, name))?;
    let (metric, scale) = on_link(counter, family, link)?;
    let mut labels: Vec<(&'static str, String)> =
        counter.labels.as_slice().iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    labels.extend(counter.named.map(|label| (label, snake_case(counter.name))));
    for (placeholder, value) in values {
        let label = label_of(placeholder);
        if let Some(label) = metric.labels.iter().find(|l| **l == label) {
            labels.push((label, value));
        }
    }
    labels.sort_unstable_by_key(|(name, _)| *name);
    let rank = u16::from(source_rank(family, link, source)) << 8 | u16::from(counter.precedence);
    Some(BoundCounter { counter, metric, labels, scale, rank })
}

/// On RoCE the performance management files count this function's RDMA traffic, and the others of them nothing
/// dependable: the metric of the row, and the one it is there.
pub(crate) static ON_ETHERNET: [(&Metric, &Metric); 3] = [
    (&traffic::PORT_IO, &traffic::RDMA_IO),
    (&traffic::PORT_PACKETS, &traffic::RDMA_PACKETS),
    (&traffic::PORT_PACKETS_CAST, &traffic::RDMA_PACKETS_CAST),
];

/// The metric and scale of a row on this link, or `None` where the counter means nothing.
fn on_link(
    counter: &'static VendorCounter,
    family: Option<&DriverFamily>,
    link: LinkLayer,
) -> Option<(&'static Metric, f64)> {
    let (metric, scale) = (counter.metric, counter.scale);
    match counter.source {
        CounterSource::SysfsCounters if link != LinkLayer::InfiniBand => {
            return ON_ETHERNET.iter().find(|(port, _)| **port == *metric).map(|(_, rdma)| (*rdma, scale));
        }
        CounterSource::PmaMad if link != LinkLayer::InfiniBand => return None,
        // IPoIB has no Ethernet MAC: these registers exist and stay zero.
        CounterSource::Ethtool | CounterSource::EthtoolStd | CounterSource::Dcb if link == LinkLayer::InfiniBand => {
            let mac = ["fabric.port.", "fabric.pfc.", "fabric.pause."];
            if metric.kind == MetricKind::Counter && mac.iter().any(|prefix| metric.name.starts_with(prefix)) {
                return None;
            }
        }
        CounterSource::Dcb if metric.kind == MetricKind::Counter && family.is_some_and(|f| !f.dcb_counts) => {
            return None;
        }
        _ => {}
    }
    if *metric == congestion::XMIT_WAIT {
        return Some(match family.and_then(|f| f.tick_bytes) {
            Some(bytes) => (&congestion::XMIT_WAIT, bytes),
            None => (&congestion::XMIT_WAIT_TICKS, 1.0),
        });
    }
    Some((metric, scale))
}

/// The label a placeholder turns into, if the metric has it.
pub(crate) fn label_of(placeholder: &str) -> &str {
    match placeholder {
        "prio" => "priority",
        "high" => "size",
        "n" => "sensor",
        other => other,
    }
}

/// `TCPLostRetransmit` → `tcp_lost_retransmit`, `RNR sent` → `rnr_sent`, `pci/x[{lane}]` → `x`.
pub(crate) fn snake_case(vendor_name: &str) -> String {
    let name = vendor_name.rsplit('/').next().unwrap_or(vendor_name);
    let mut out = String::with_capacity(name.len() + 8);
    let mut in_placeholder = false;
    let chars: Vec<char> = name.chars().collect();
    for (i, &c) in chars.iter().enumerate() {
        match c {
            '{' => in_placeholder = true,
            '}' => in_placeholder = false,
            _ if in_placeholder => {}
            _ if c.is_ascii_alphanumeric() => {
                let after_lower = i > 0 && (chars[i - 1].is_ascii_lowercase() || chars[i - 1].is_ascii_digit());
                let before_lower = chars.get(i + 1).is_some_and(char::is_ascii_lowercase);
                let in_acronym = i > 0 && chars[i - 1].is_ascii_uppercase();
                if c.is_ascii_uppercase() && (after_lower || in_acronym && before_lower) {
                    out.push('_');
                }
                out.push(c.to_ascii_lowercase());
            }
            _ => out.push('_'),
        }
    }
    let words: Vec<&str> = out.split('_').filter(|word| !word.is_empty()).collect();
    words.join("_")
}

type Values = Vec<(&'static str, String)>;

/// Rows by source and by the name with every run of digits replaced, so that a lookup tries a handful of rows.
pub(crate) struct Index {
    by_skeleton: HashMap<(CounterSource, String), Vec<&'static VendorCounter>>,
    /// Rows with a placeholder that is no number (`{reporter}`, `{dev}`); very few.
    textual: Vec<&'static VendorCounter>,
}

impl Index {
    pub(crate) fn new(rows: impl Iterator<Item = &'static VendorCounter>) -> Self {
        let mut index = Self { by_skeleton: HashMap::new(), textual: Vec::new() };
        for row in rows {
            if TEXTUAL.iter().any(|p| row.name.contains(p)) {
                index.textual.push(row);
                continue;
            }
            let rows = index.by_skeleton.entry((row.source, skeleton(row.name))).or_default();
            // A literal name wins over a pattern that would match it too.
            let at = if row.name.contains('{') { rows.len() } else { 0 };
            rows.insert(at, row);
        }
        index
    }

    /// Port-level tables serve device-level names too, where the driver has but one list.
    fn find(&self, source: CounterSource, name: &str) -> Option<(&'static VendorCounter, Values)> {
        let found = self.find_exact(source, name);
        if found.is_none() && source == CounterSource::DeviceHwCounters {
            return self.find_exact(CounterSource::HwCounters, name);
        }
        found
    }

    fn find_exact(&self, source: CounterSource, name: &str) -> Option<(&'static VendorCounter, Values)> {
        let rows = self.by_skeleton.get(&(source, skeleton(name))).map_or(&[][..], Vec::as_slice);
        let textual = self.textual.iter().filter(|row| row.source == source);
        rows.iter().chain(textual).find_map(|row| Some((*row, matches(row.name, name)?)))
    }
}

const TEXTUAL: [&str; 2] = ["{reporter}", "{dev}"];

/// Every run of digits and every placeholder becomes `#`.
fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut in_placeholder = false;
    for c in name.chars() {
        match c {
            '{' => in_placeholder = true,
            '}' => in_placeholder = false,
            _ if in_placeholder => continue,
            _ if !c.is_ascii_digit() => {
                out.push(c);
                continue;
            }
            _ => {}
        }
        if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

/// The placeholders' values when `name` fits `pattern`.
fn matches(pattern: &'static str, name: &str) -> Option<Values> {
    let mut values = Vec::new();
    let (mut pattern, mut name) = (pattern, name);
    while let Some(open) = pattern.find('{') {
        name = name.strip_prefix(&pattern[..open])?;
        let close = open + pattern[open..].find('}')?;
        let placeholder = &pattern[open + 1..close];
        pattern = &pattern[close + 1..];
        let textual = TEXTUAL.iter().any(|t| t[1..t.len() - 1] == *placeholder);
        let end = name.find(|c: char| if textual { c == '/' } else { !c.is_ascii_digit() }).unwrap_or(name.len());
        if end == 0 {
            return None;
        }
        values.push((placeholder, name[..end].to_owned()));
        name = &name[end..];
    }
    (pattern == name).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snake_case_of_vendor_spellings() {
        for (from, to) in [
            ("TCPLostRetransmit", "tcp_lost_retransmit"),
            ("ip4InDiscards", "ip4_in_discards"),
            ("SDMAErrCt{engine}", "sdma_err_ct"),
            ("RNR sent", "rnr_sent"),
            ("aer_dev_fatal/MalfTLP", "malf_tlp"),
            ("queue_{queue}_tx_cnt", "queue_tx_cnt"),
            ("InECT0Pkts", "in_ect0_pkts"),
        ] {
            assert_eq!(snake_case(from), to);
        }
    }

    #[test]
    fn placeholders_take_digits_only() {
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_prio12_bytes"), Some(vec![("prio", "12".into())]));
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_priox_bytes"), None);
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_prio_bytes"), None);
        assert_eq!(matches("rx_prio{prio}_bytes", "rx_prio1_bytes_x"), None);
        assert_eq!(skeleton("hist_rx[{low}-{high}]"), skeleton("hist_rx[65-127]"));
    }
}
