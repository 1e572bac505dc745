//! What the tracer counts.

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that a router or the target answered.
    pub answers: u64,
    /// Datagrams without an answer in time.
    pub silent: u64,
    /// Answers to no datagram that waits: late, repeated, forged, or of another sender.
    pub ignored: u64,
    /// Traces and searches for a distance that the kernel refused, for instance because the source port is taken.
    pub refused: u64,
    /// Traces that told another path than the one before.
    pub changes: u64,
}

/// Paths of the current plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// All switches up to the target are known, each by one address or more.
    pub known: usize,
    /// Some switches are not known.
    pub partial: usize,
    /// No switch is known, or the path was not traced yet.
    pub unknown: usize,
    /// Source ports of the plan that are not traced, because the plan has too many or names no port of this host.
    pub left_out: usize,
}
