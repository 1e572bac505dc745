//! Binds a vendor's counter name to the canonical metric and its labels. The agent calls it whenever a device's list of
//! names changes; it takes about a microsecond per name.

use crate::counters::generic_index;
use crate::family::{DriverFamily, LinkLayer, source_rank};
use crate::metric::{Metric, MetricKind};
use crate::metrics::{congestion, traffic};
use crate::source::CounterSource;
use crate::vendor_counter::VendorCounter;

/// A vendor counter bound to its metric.
#[derive(Clone, Debug)]
pub struct BoundCounter {
    /// The matching row of the catalog.
    pub counter: &'static VendorCounter,
    /// The metric on this link layer; differs from the row's metric for some InfiniBand counters read on Ethernet.
    pub metric: &'static Metric,
    /// All labels except the identity labels, sorted by name, with placeholders resolved (`priority="3"`).
    pub labels: Vec<(&'static str, String)>,
    /// Exported value = raw value × scale.
    pub scale: f64,
    /// Preference among readings of a port with the same metric and labels: the lowest rank wins. Readings of equal
    /// rank are summed if the row `adds`; otherwise they are spellings of one counter, and the first one counts.
    pub rank: u16,
}

/// Binds a vendor's name that was read from `source` on a port of the given link layer. `None` for unknown names, and for
/// counters that are meaningless on that link layer. Accepts blanks around the name and hfi1's suffix `,32`.
///
/// ```
/// use fabriclens_catalog::{CounterSource, LinkLayer, bind};
///
/// // Standard names need no driver family.
/// let bound = bind(None, LinkLayer::InfiniBand, CounterSource::SysfsCounters, "port_rcv_data").expect("a known counter");
/// assert_eq!((bound.metric.name, bound.scale), ("fabric.port.io", 4.0));
/// assert!(bind(None, LinkLayer::InfiniBand, CounterSource::SysfsCounters, "no_such_counter").is_none());
/// ```
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

/// On Ethernet the performance management files count the RDMA traffic of this function, not that of the port. Pairs of
/// the row's metric and the metric it feeds on Ethernet. The other files hold nothing reliable there.
pub(crate) static ON_ETHERNET: [(&Metric, &Metric); 3] = [
    (&traffic::PORT_IO, &traffic::RDMA_IO),
    (&traffic::PORT_PACKETS, &traffic::RDMA_PACKETS),
    (&traffic::PORT_PACKETS_CAST, &traffic::RDMA_PACKETS_CAST),
];

/// Metric and scale of a row on this link layer; `None` if the counter is meaningless there.
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

/// Name of the label that a placeholder becomes, if the metric has that label.
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
}
