//! Counters of one simulated NIC.

use super::layout::FRAME;

/// Seconds of pause per pause frame: mlx5 refreshes a pause well before its quanta end, about every 8 µs at 400 Gb/s.
pub const PAUSE_REFRESH_S: f64 = 8e-6;

/// Counters of a NIC since the start, as real numbers; truncated when written to files.
#[derive(Clone, Default)]
pub struct Nic {
    pub tx_bytes: f64,
    pub rx_bytes: f64,
    /// Received bytes without corrupted frames and those that go-back-N repeats. No counter shows it.
    pub delivered: f64,
    pub rx_pause_s: f64,
    pub tx_pause_s: f64,
    pub ecn_marked: f64,
    pub cnp_sent: f64,
    pub cnp_handled: f64,
    pub out_of_sequence: f64,
    pub packet_seq_err: f64,
    pub adp_retrans: f64,
    pub ack_timeouts: f64,
    pub symbol_errors: f64,
    pub crc_errors: f64,
    pub corrected_bits: f64,
    pub storm_warnings: f64,
    pub link_downs: f64,
}

impl Nic {
    /// Frames sent.
    pub fn tx_packets(&self) -> f64 {
        self.tx_bytes / FRAME
    }

    /// Frames received.
    pub fn rx_packets(&self) -> f64 {
        self.rx_bytes / FRAME
    }

    /// Pause frames received.
    pub fn rx_pause_frames(&self) -> f64 {
        self.rx_pause_s / PAUSE_REFRESH_S
    }

    /// Pause frames sent.
    pub fn tx_pause_frames(&self) -> f64 {
        self.tx_pause_s / PAUSE_REFRESH_S
    }
}
