//! The detectors, pure functions from a [`context::DetectorContext`] to findings, and what they share. A new detector is one
//! file with one `Detector` constant, and one row in [`ALL`].

mod acquittal;
pub mod application_straggler;
pub mod backpressure;
mod busy_host;
pub mod context;
pub mod counter_sanity;
mod credit_bottleneck;
mod credit_hosts;
mod credit_receiver;
mod credit_stall;
mod credit_tree;
mod credits;
mod deadlock;
mod degraded_link;
pub mod detector;
mod ecmp_collision;
mod ecn_marking;
mod ecn_reaction;
mod evidence;
pub mod fault_domain;
pub mod fault_partition;
mod hold_signal;
mod host_pause;
mod hosts_alone;
mod incast;
mod link;
mod link_load;
mod loss_places;
pub mod loss_votes;
mod loss_with_marks;
mod lossy_link;
mod lossy_path;
mod noisy_neighbour;
mod optics;
pub mod paging;
mod path_flap;
mod path_votes;
mod pause;
mod paused_time;
mod pcie;
mod port_trouble;
mod probe_delay;
mod probe_falls;
mod probe_loss;
mod probe_loss_finding;
mod receive_ceiling;
mod send_ceiling;
pub mod senders;
mod slow_hosts;
mod slow_pairs;
mod slow_path;
mod sprayed_uplink;
mod straggler_rail;
mod stuck_collective;
mod tcp_fallback;
mod tcp_twins;
pub mod thresholds;
mod transport;
mod unmarked_queues;
pub mod victims;
mod wait_graph;
pub mod waiting_ports;
mod watchdog;

use detector::Detector;
use thresholds::{OverrideError, Threshold, Thresholds};

/// All detectors. Of findings with equal confidence, that of the earlier row wins.
pub const ALL: [Detector; 30] = [
    link::FLAP,
    link::DOWN,
    path_flap::DETECTOR,
    host_pause::DETECTOR,
    credit_stall::DETECTOR,
    credits::HOT_ROW,
    credits::GROWN_ROW,
    degraded_link::DETECTOR,
    sprayed_uplink::DETECTOR,
    lossy_link::DETECTOR,
    ecn_marking::DETECTOR,
    ecn_reaction::DETECTOR,
    incast::DETECTOR,
    pcie::DETECTOR,
    optics::DETECTOR,
    tcp_fallback::DETECTOR,
    straggler_rail::DETECTOR,
    receive_ceiling::DETECTOR,
    send_ceiling::DETECTOR,
    noisy_neighbour::DETECTOR,
    ecmp_collision::DETECTOR,
    slow_path::DETECTOR,
    pause::DETECTOR,
    transport::DETECTOR,
    probe_loss::DETECTOR,
    probe_delay::DETECTOR,
    loss_with_marks::DETECTOR,
    busy_host::DETECTOR,
    stuck_collective::DETECTOR,
    application_straggler::DETECTOR,
];

/// Thresholds of files that several detectors use.
const SHARED: [&[&Threshold]; 9] = [
    credit_receiver::THRESHOLDS,
    hold_signal::THRESHOLDS,
    backpressure::THRESHOLDS,
    victims::THRESHOLDS,
    paging::THRESHOLDS,
    unmarked_queues::THRESHOLDS,
    lossy_path::THRESHOLDS,
    tcp_twins::THRESHOLDS,
    slow_pairs::THRESHOLDS,
];

/// Every threshold once: those of the detectors in the order of [`ALL`], then the shared ones.
pub fn thresholds() -> impl Iterator<Item = &'static Threshold> {
    let mut seen: Vec<&'static str> = Vec::new();
    let each = ALL.into_iter().map(|detector| detector.thresholds).chain(SHARED);
    // Two detectors of one file share its list.
    each.flatten().copied().filter(move |threshold| {
        let new = !seen.contains(&threshold.name);
        seen.push(threshold.name);
        new
    })
}

impl Thresholds {
    /// Overrides a threshold by its name.
    ///
    /// # Errors
    /// [`OverrideError`] if no threshold has that name, or the value is not finite.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), OverrideError> {
        let known = thresholds().find(|threshold| threshold.name == name);
        let Some(threshold) = known else { return Err(OverrideError::Unknown(name.to_owned())) };
        self.override_value(threshold, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_names_are_unique() {
        let names: Vec<&str> = thresholds().map(|l| l.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name} twice");
            let detector = name.split_once('.').unwrap().0;
            assert!(
                ["wait", "victims", "page"].contains(&detector) || ALL.iter().any(|d| d.name == detector),
                "{name}"
            );
        }
    }

    #[test]
    fn bad_overrides_are_rejected() {
        let first = thresholds().next().unwrap();
        let mut overrides = Thresholds::default();
        assert_eq!(overrides.get(first), first.default);
        overrides.set(first.name, 0.5).unwrap();
        overrides.set(first.name, 0.25).unwrap();
        assert_eq!(overrides.get(first), 0.25);
        assert_eq!(overrides.set("host_pause.hled", 1.0), Err(OverrideError::Unknown("host_pause.hled".into())));
        assert!(matches!(overrides.set(first.name, f64::NAN), Err(OverrideError::Value { .. })));
    }
}
