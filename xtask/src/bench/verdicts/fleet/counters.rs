//! Counters of the ports of a made-up fleet, and the file they are written to.

use super::fabric::{Fabric, RATE_GBPS};
use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// What a port counts. Each is a row of [`COLUMNS`].
#[derive(Clone, Copy)]
pub enum Counter {
    TxBytes,
    TxPackets,
    RxBytes,
    RxPackets,
    TxPauseNs,
    RxPauseNs,
    Marked,
    NotedMarks,
    CnpSent,
    CnpHandled,
    Retransmits,
    OutOfSequence,
    NakReceived,
    Timeouts,
    CrcErrors,
    SymbolErrors,
    ReceiveErrors,
    WaitBytes,
    LinkDowns,
    /// A gauge: what waits at the end of the second.
    Queue,
}

/// Which ports have a counter.
struct Column {
    name: &'static str,
    hosts: bool,
    switches: bool,
    roce: bool,
    infiniband: bool,
}

const BOTH: Column = Column { name: "", hosts: true, switches: true, roce: true, infiniband: true };
const ROCE: Column = Column { infiniband: false, ..BOTH };
const INFINIBAND: Column = Column { roce: false, ..BOTH };
const HOSTS: Column = Column { switches: false, ..BOTH };

/// By [`Counter`].
const COLUMNS: [Column; 20] = [
    Column { name: "tx_bytes", ..BOTH },
    Column { name: "tx_pkts", ..BOTH },
    Column { name: "rx_bytes", ..BOTH },
    Column { name: "rx_pkts", ..BOTH },
    Column { name: "tx_pause_ns_p3", ..ROCE },
    Column { name: "rx_pause_ns_p3", ..ROCE },
    Column { name: "ecn_marked_pkts", hosts: false, ..ROCE },
    Column { name: "np_ecn_marked_pkts", switches: false, ..ROCE },
    Column { name: "np_cnp_sent", switches: false, ..ROCE },
    Column { name: "rp_cnp_handled", switches: false, ..ROCE },
    Column { name: "retx_pkts", ..HOSTS },
    Column { name: "out_of_seq", ..HOSTS },
    Column { name: "nack_rcvd", ..HOSTS },
    Column { name: "rto", ..HOSTS },
    Column { name: "rx_crc_err", ..ROCE },
    Column { name: "symbol_err", ..BOTH },
    Column { name: "rx_err", ..INFINIBAND },
    Column { name: "xmit_wait_bytes", ..INFINIBAND },
    Column { name: "link_downs", ..BOTH },
    Column { name: "q_bytes", hosts: false, ..ROCE },
];

/// Totals of a port, by [`Counter`].
#[derive(Clone, Copy, Default)]
pub struct Totals([f64; COLUMNS.len()]);

impl Totals {
    /// Counts more.
    pub fn add(&mut self, counter: Counter, more: f64) {
        self.0[counter as usize] += more;
    }

    /// Sets a gauge.
    pub fn set(&mut self, counter: Counter, value: f64) {
        self.0[counter as usize] = value;
    }

    /// What the totals were a share of a second ago, if they were `before` a second ago.
    fn earlier(&self, before: &Self, share: f64) -> Self {
        let mut at = *self;
        at.0.iter_mut().zip(before.0).for_each(|(now, before)| *now -= share * (*now - before).max(0.0));
        at
    }
}

/// When and what an agent (or the poller of a switch) samples.
#[derive(Clone, Copy, Default)]
pub struct Sampling {
    /// The sample is taken so long before the full second, s.
    pub early_s: f64,
    /// The clock is fast by so much, s.
    pub ahead_s: f64,
    /// No sample is taken.
    pub missing: bool,
    /// The counters are those of the last sample.
    pub stale: bool,
}

/// Writes `ports.csv.gz`.
pub struct PortsFile {
    output: GzEncoder<File>,
    columns: Vec<usize>,
    infiniband: bool,
    /// By port: totals of a second ago, and those of the last sample.
    before: Vec<[Totals; 2]>,
}

impl PortsFile {
    /// Creates the file with its header.
    pub fn create(path: &Path, ports: usize, infiniband: bool) -> Result<Self> {
        let has = |at: &usize| if infiniband { COLUMNS[*at].infiniband } else { COLUMNS[*at].roce };
        let columns: Vec<usize> = (0..COLUMNS.len()).filter(has).collect();
        let mut output = GzEncoder::new(File::create(path)?, Compression::fast());
        let names: Vec<&str> = columns.iter().map(|at| COLUMNS[*at].name).collect();
        writeln!(output, "tick_ns,node,port,{},speed_gbps,up", names.join(","))?;
        Ok(Self { output, columns, infiniband, before: vec![[Totals::default(); 2]; ports] })
    }

    /// Writes the rows of a second. A port is the direction that it sends to.
    pub fn write(
        &mut self,
        second: usize,
        fabric: &Fabric,
        totals: &[Totals],
        up: impl Fn(usize) -> bool,
        sampling: impl Fn(usize) -> Sampling,
    ) -> Result<()> {
        for (port, now) in totals.iter().enumerate() {
            let end = &fabric.cables[port / 2][port % 2];
            let Sampling { early_s, ahead_s, missing, stale } = sampling(port);
            let [before, last] = &mut self.before[port];
            let sample = if stale { *last } else { now.earlier(before, early_s) };
            (*before, *last) = (*now, sample);
            if missing {
                continue;
            }
            let time_ns = ((second as f64 - early_s + ahead_s) * 1e9) as i64;
            write!(self.output, "{time_ns},{},{}", end.node, end.port)?;
            for at in &self.columns {
                let Column { hosts, switches, .. } = COLUMNS[*at];
                let has = if end.host.is_some() { hosts } else { switches };
                if has { write!(self.output, ",{:.0}", sample.0[*at])? } else { write!(self.output, ",")? }
            }
            let up = up(port);
            let speed = if up || self.infiniband { RATE_GBPS.to_string() } else { String::new() };
            writeln!(self.output, ",{speed},{}", u8::from(up))?;
        }
        Ok(())
    }

    /// Ends the file.
    pub fn finish(self) -> Result<()> {
        self.output.finish()?;
        Ok(())
    }
}
