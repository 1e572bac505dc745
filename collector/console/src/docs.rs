//! Pages of the documentation that the console shows: runbooks, and how verdicts are reached. Incidents and alerts link to them.

/// A page of the documentation.
pub(crate) struct Doc {
    /// Path below `docs/`.
    pub(crate) path: &'static str,
    /// Content in Markdown.
    pub(crate) text: &'static str,
}

macro_rules! doc {
    ($path:literal) => {
        Doc { path: $path, text: include_str!(concat!("../../../docs/", $path)) }
    };
}

/// All of them.
pub(crate) const DOCS: &[Doc] = &[
    doc!("runbooks/README.md"),
    doc!("runbooks/agent-data-loss.md"),
    doc!("runbooks/agent-missing.md"),
    doc!("runbooks/certificate-expires.md"),
    doc!("runbooks/clock-skew.md"),
    doc!("runbooks/collector-data-loss.md"),
    doc!("runbooks/collector-overloaded.md"),
    doc!("runbooks/counters-doubted.md"),
    doc!("runbooks/credit-stall.md"),
    doc!("runbooks/judge-missing.md"),
    doc!("runbooks/kernel-fault.md"),
    doc!("runbooks/link-ber-high.md"),
    doc!("runbooks/link-ber-rising.md"),
    doc!("runbooks/link-degraded.md"),
    doc!("runbooks/link-down.md"),
    doc!("runbooks/link-flapping.md"),
    doc!("runbooks/pause-sustained.md"),
    doc!("runbooks/pause-without-ecn.md"),
    doc!("runbooks/pcie-degraded.md"),
    doc!("runbooks/pfc-storm.md"),
    doc!("runbooks/retransmit-surge.md"),
    doc!("runbooks/setting-drift.md"),
    doc!("runbooks/store-failing.md"),
    doc!("runbooks/stuck-collective.md"),
    doc!("runbooks/subnet-reader-missing.md"),
    doc!("runbooks/switch-silent.md"),
    doc!("runbooks/tcp-fallback.md"),
    doc!("runbooks/xmit-wait-hot.md"),
    doc!("runbooks/xmit-wait.md"),
    doc!("audit.md"),
    doc!("kernel-log.md"),
    doc!("verdicts.md"),
];

/// The page with a path.
pub(crate) fn find(path: &str) -> Option<&'static Doc> {
    DOCS.iter().find(|doc| doc.path == path)
}
