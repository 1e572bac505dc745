//! Driver counters of PFC per priority, CNP and ECN, and an optional counter, arrive as canonical series.

use super::watched::{Hca, port};
use super::{Lab, Scenario};
use anyhow::{Result, bail, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-congestion",
    shows: "PFC pause per priority, CNP, ECN, optional counters of an mlx5 as canonical series",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

/// Driver counter, its value, canonical series, its labels, expected value.
const ROWS: &[(&str, u64, &str, &str, f64)] = &[
    ("rx_prio3_pause", 1200, "fabric_pfc_frames_total", "direction=\"receive\",priority=\"3\"", 1200.0),
    ("tx_prio3_pause", 34, "fabric_pfc_frames_total", "direction=\"transmit\",priority=\"3\"", 34.0),
    // Microseconds become seconds.
    (
        "rx_prio3_pause_duration",
        2_500_000,
        "fabric_pfc_pause_seconds_total",
        "direction=\"receive\",priority=\"3\"",
        2.5,
    ),
    ("rx_prio3_pause_transition", 77, "fabric_pfc_transitions_total", "direction=\"receive\",priority=\"3\"", 77.0),
    ("rp_cnp_handled", 750, "fabric_cnp_packets_total", "direction=\"receive\"", 750.0),
    ("np_cnp_sent", 800, "fabric_cnp_packets_total", "direction=\"transmit\"", 800.0),
    ("np_ecn_marked_roce_packets", 5000, "fabric_ecn_packets_total", "", 5000.0),
    ("out_of_sequence", 21, "fabric_rdma_out_of_sequence_total", "", 21.0),
    ("packet_seq_err", 15, "fabric_rdma_sequence_naks_total", "direction=\"receive\"", 15.0),
    ("local_ack_timeout_err", 4, "fabric_rdma_ack_timeouts_total", "", 4.0),
    // Words of four bytes become bytes.
    ("port_xmit_data", 250, "fabric_rdma_io_bytes_total", "direction=\"transmit\"", 1000.0),
];

fn run(lab: &Lab) -> Result<()> {
    let hca = Hca::start(lab)?;
    let commands: Vec<String> = ROWS.iter().map(|row| format!("mlx5_0 set {} {}", row.0, row.1)).collect();
    hca.drive(&commands.join("\n"))?;
    for (counter, _, metric, labels, wanted) in ROWS {
        let selector = port("hca1", "mlx5_0", metric, labels);
        let got = hca.settled(lab, &selector)?;
        ensure!((got - wanted).abs() < 1e-9, "{counter}: {selector} is {got}, not {wanted}");
    }
    let other = port("hca1", "mlx5_1", "fabric_cnp_packets_total", "direction=\"transmit\"");
    ensure!(hca.settled(lab, &other)? == 0.0, "the other device counts along");
    lab.say(&format!("{} counters arrive as canonical series, on their own device only", ROWS.len()));

    // A storm that pauses 0.6 of each second, and CNPs that grow meanwhile. `ethtool -S` is too expensive on mlx5 for the
    // congestion sample, so only the CNPs have a peak.
    hca.drive("mlx5_0 rate rx_prio3_pause_duration 600000\nmlx5_0 rate np_cnp_sent 4000")?;
    let share = port("hca1", "mlx5_0", "fabric_pfc_pause_share_ratio", "direction=\"receive\",priority=\"3\"");
    let paused = near(lab, &hca, &share, 0.55..0.65)?;
    let peak = port("hca1", "mlx5_0", "fabric_cnp_packets_peak_per_second", "direction=\"transmit\"");
    let peak = near(lab, &hca, &peak, 3_500.0..8_000.0)?;
    lab.say(&format!("paused {paused:.3} of each second; CNP peak {peak:.0} per second of 4000"));
    hca.drive("mlx5_0 rate rx_prio3_pause_duration 0\nmlx5_0 rate np_cnp_sent 0")?;

    let switched_on = port("hca1", "mlx5_0", "fabric_cnp_packets_total", "");
    let series = hca.collector.query(&switched_on)?.len();
    hca.guest.sh("rdma statistic set link mlx5_0/1 optional-counters cc_rx_ce_pkts,cc_rx_cnp_pkts")?;
    hca.drive("mlx5_0 set cc_rx_cnp_pkts 751\nmlx5_0 set cc_rx_ce_pkts 5001")?;
    // The optional counters feed the same series; whichever the catalog prefers, no series is duplicated.
    let still = hca.collector.query(&switched_on)?.len();
    ensure!(still == series, "switching optional counters on made {still} series of {series}");
    let ours = hca.settled(lab, &port("hca1", "mlx5_0", "fabric_cnp_packets_total", "direction=\"receive\""))?;
    ensure!(ours == 750.0 || ours == 751.0, "CNP received are {ours}");
    Ok(())
}

/// Waits until the newest value of a series lies in `range`: a slow guest's first windows may not.
fn near(lab: &Lab, hca: &Hca, selector: &str, range: std::ops::Range<f64>) -> Result<f64> {
    lab.wait(&format!("{selector} in {range:?}"), Duration::from_secs(60), || {
        let newest = hca.collector.points(selector, 20)?.last().map(|point| point.1);
        if let Some(value) = newest.filter(|value| !range.contains(value)) {
            bail!("it is {value}");
        }
        Ok(newest)
    })
}
