//! Why a datagram is not taken, and how often.

/// Reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No message of this protocol.
    Malformed,
    /// Answer to a probe that was never sent, or not from its target, or without its T1.
    Forged,
    /// Answer that was taken before.
    Repeated,
    /// Answer to a probe whose time is over.
    Late,
    /// Answer to a probe of an earlier run of this agent.
    OtherRun,
    /// Times that contradict each other: the round trip would be negative, or longer than the host's clock says.
    Impossible,
    /// Probe of a sender that probes too often.
    SenderLimit,
    /// Probe above the number that the port answers in all.
    PortLimit,
}

/// All reasons with their label values, in the order of [`Counts`].
pub const REASONS: [(Refusal, &str); 8] = [
    (Refusal::Malformed, "malformed"),
    (Refusal::Forged, "forged"),
    (Refusal::Repeated, "repeated"),
    (Refusal::Late, "late"),
    (Refusal::OtherRun, "other_run"),
    (Refusal::Impossible, "impossible_times"),
    (Refusal::SenderLimit, "sender_limit"),
    (Refusal::PortLimit, "port_limit"),
];

/// Refused datagrams by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; REASONS.len()]);

impl Counts {
    /// Counts one.
    pub fn add(&mut self, refusal: Refusal) {
        for ((reason, _), count) in REASONS.iter().zip(&mut self.0) {
            *count += u64::from(*reason == refusal);
        }
    }

    /// How often.
    #[cfg(test)]
    pub fn get(&self, refusal: Refusal) -> u64 {
        self.iter().find(|(reason, ..)| *reason == refusal).map_or(0, |row| row.2)
    }

    /// Reasons, label values and counts.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, &'static str, u64)> + '_ {
        REASONS.iter().zip(self.0).map(|((reason, name), count)| (*reason, *name, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_count() {
        let mut counts = Counts::default();
        for (index, (reason, _)) in REASONS.iter().enumerate() {
            (0..=index).for_each(|_| counts.add(*reason));
        }
        for (index, (reason, name)) in REASONS.iter().enumerate() {
            assert_eq!(counts.get(*reason), index as u64 + 1, "{name}");
        }
    }
}
