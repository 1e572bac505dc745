//! Microbursts: traffic bursts shorter than a second on selected interfaces, detected in bins of one millisecond, and
//! recordings of the time around them. The sampler `microburst` fills them, `http` shows them.

use fabriclens_ebpf_abi::microburst::{BIN, BIN_NS, BYTES, DIRECTIONS, WORDS};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;

/// Counts of one millisecond, indexed by the words of bin 0 in [`fabriclens_ebpf_abi::microburst::word`].
pub type Bin = [u64; BIN];

/// Milliseconds recorded before and after a burst.
const BEFORE: u64 = 500;
const AFTER: u64 = 500;
/// Milliseconds between two recordings of an interface.
const PAUSE: u64 = 10_000;
/// Label values and names of columns, by direction.
pub const NAMES: [&str; DIRECTIONS] = ["receive", "transmit"];

/// Microburst settings and recordings.
#[derive(Debug)]
pub struct Microburst {
    /// Watched interfaces.
    pub netdevs: Vec<String>,
    /// Threshold of a burst as a share of the line rate.
    pub share: f64,
    /// Threshold of a burst in bytes per millisecond; overrides `share`.
    pub bytes: Option<u64>,
    /// Recordings.
    pub dumps: Dumps,
}

impl Default for Microburst {
    fn default() -> Self {
        Self { netdevs: Vec::new(), share: 0.9, bytes: None, dumps: Dumps::new(16) }
    }
}

impl Microburst {
    /// Threshold in bytes per millisecond; `line` in bytes per second. `None` if neither `bytes` nor the line rate is
    /// known.
    pub fn threshold(&self, line: Option<f64>) -> Option<u64> {
        let share = || line.map(|line| (line * self.share * BIN_NS as f64 / 1e9) as u64);
        self.bytes.or_else(share).map(|bytes| bytes.max(1))
    }
}

/// Latest recordings, the oldest first.
#[derive(Debug)]
pub struct Dumps {
    most: usize,
    kept: Mutex<VecDeque<Arc<Dump>>>,
}

impl Dumps {
    /// Ring of at most `most` recordings.
    pub fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    /// Adds a recording, and drops the oldest if there are too many.
    pub fn push(&self, dump: Dump) {
        let mut kept = self.kept.lock();
        kept.push_back(Arc::new(dump));
        while kept.len() > self.most {
            kept.pop_front();
        }
    }

    /// Recordings of an interface, or all.
    pub fn of(&self, netdev: Option<&str>) -> Vec<Arc<Dump>> {
        let wanted = |dump: &&Arc<Dump>| netdev.is_none_or(|netdev| dump.netdev == netdev);
        self.kept.lock().iter().filter(wanted).cloned().collect()
    }
}

/// Recording around a burst.
#[derive(Debug, PartialEq, Eq)]
pub struct Dump {
    /// Interface name.
    pub netdev: String,
    /// Unix ns of the first bin.
    pub begin_ns: u64,
    /// Recorded bins.
    pub window: Window,
}

impl Dump {
    /// JSON of `/debug/microburst`. Bins without traffic are left out.
    pub fn json(&self) -> serde_json::Value {
        let words = ["bytes", "packets", "ce_packets", "roce_packets"];
        let counted = NAMES.iter().flat_map(|way| words.map(|word| format!("{way}_{word}")));
        let columns: Vec<String> = std::iter::once("bin".to_owned()).chain(counted).collect();
        let w = &self.window;
        let row = |(at, bin): (usize, &Bin)| std::iter::once(at as u64).chain(*bin).collect::<Vec<u64>>();
        let bins: Vec<Vec<u64>> =
            w.bins.iter().enumerate().filter(|(_, bin)| bin.iter().any(|n| *n > 0)).map(row).collect();
        json!({
            "netdev": self.netdev,
            "begin_unix_ns": self.begin_ns,
            "bin_ns": BIN_NS,
            "bins_all": w.bins.len(),
            "trigger": { "bin": w.trigger, "direction": NAMES[w.direction], "threshold_bytes": w.threshold },
            "columns": columns,
            "bins": bins,
        })
    }
}

/// Bins around a burst.
#[derive(Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of the first bin, in milliseconds of the monotonic clock.
    pub first: u64,
    /// Consecutive bins.
    pub bins: Vec<Bin>,
    /// Index of the bin with the burst.
    pub trigger: usize,
    /// Direction of the burst, an index into [`NAMES`].
    pub direction: usize,
    /// Threshold in bytes.
    pub threshold: u64,
}

/// Burst detector of one interface.
#[derive(Debug, Default)]
pub struct Recorder {
    history: VecDeque<Bin>,
    /// Number of the next expected bin.
    next: u64,
    /// Bin, direction and threshold of a burst whose following milliseconds are not complete.
    pending: Option<(u64, usize, u64)>,
    quiet_until: u64,
}

impl Recorder {
    /// Adds a bin. Returns the recording of a burst once it is complete.
    pub fn push(&mut self, number: u64, bin: &Bin, threshold: Option<u64>) -> Option<Window> {
        if number != self.next {
            // Bins are missing: a recording must not show unknown bins as empty.
            (self.history, self.pending) = (VecDeque::new(), None);
        }
        self.next = number + 1;
        self.history.push_back(*bin);
        if self.history.len() as u64 > BEFORE + AFTER + 1 {
            self.history.pop_front();
        }
        if self.pending.is_none()
            && number >= self.quiet_until
            && let Some(threshold) = threshold
            && let Some(direction) = (0..DIRECTIONS).find(|way| bin[way * WORDS + BYTES] >= threshold)
        {
            self.pending = Some((number, direction, threshold));
        }
        let (at, direction, threshold) = self.pending.filter(|(at, ..)| number >= at + AFTER)?;
        self.pending = None;
        self.quiet_until = at + PAUSE;
        let first = self.next - self.history.len() as u64;
        let bins = self.history.iter().copied().collect();
        Some(Window { first, bins, trigger: (at - first) as usize, direction, threshold })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(received: u64, sent: u64) -> Bin {
        let mut bin = [0; BIN];
        (bin[BYTES], bin[WORDS + BYTES]) = (received, sent);
        bin
    }

    fn windows(bins: impl Iterator<Item = (u64, Bin)>) -> Vec<Window> {
        let mut recorder = Recorder::default();
        bins.filter_map(|(number, bin)| recorder.push(number, &bin, Some(100))).collect()
    }

    #[test]
    fn a_burst_is_kept_with_what_was_around_it() {
        let at = |n: u64| (n, if n == 5000 { bin(0, 100) } else { bin(n % 50, 99) });
        let made = windows((4000..6000).map(at));
        assert_eq!(made.len(), 1);
        let w = &made[0];
        assert_eq!((w.first, w.bins.len(), w.trigger, w.direction), (4500, 1001, 500, 1));
        assert_eq!(w.bins[w.trigger], bin(0, 100));
        assert_eq!(w.bins[0], bin(0, 99));
    }

    #[test]
    fn recordings_of_bursts_are_rate_limited() {
        let made = windows((0..25_000).map(|n| (n, bin(200, 0))));
        let at: Vec<u64> = made.iter().map(|w| w.first + w.trigger as u64).collect();
        assert_eq!(at, [0, PAUSE, 2 * PAUSE]);
    }

    #[test]
    fn missing_bins_discard_a_recording() {
        let before = (0..300).map(|n| (n, bin(u64::from(n == 200) * 500, 0)));
        assert_eq!(windows(before.chain((1000..2000).map(|n| (n, bin(1, 1))))), []);
    }

    #[test]
    fn threshold_is_configured_or_derived_from_the_line_rate() {
        let mut settings = Microburst::default();
        assert_eq!(settings.threshold(None), None);
        assert_eq!(settings.threshold(Some(12.5e9)), Some(11_250_000));
        settings.bytes = Some(7);
        assert_eq!(settings.threshold(Some(12.5e9)), Some(7));
    }

    #[test]
    fn dumps_are_bounded_and_omit_empty_bins() {
        let dumps = Dumps::new(2);
        for begin_ns in 0..3 {
            let bins = vec![bin(0, 0), bin(5, 6)];
            let window = Window { first: 9, bins, trigger: 1, direction: 0, threshold: 4 };
            dumps.push(Dump { netdev: format!("eth{begin_ns}"), begin_ns, window });
        }
        assert_eq!(dumps.of(None).iter().map(|d| d.begin_ns).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(dumps.of(Some("eth0")), []);
        let json_dump = dumps.of(Some("eth2"))[0].json();
        assert_eq!(json_dump["bins"], json!([[1, 5, 0, 0, 0, 6, 0, 0, 0]]));
        assert_eq!(json_dump["trigger"], json!({"bin": 1, "direction": "receive", "threshold_bytes": 4}));
        assert_eq!(json_dump["columns"].as_array().unwrap().len(), 9);
    }
}
