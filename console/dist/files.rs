//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"739939b0\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-CSPzIpSN.js", gzip: include_bytes!("assets/audit-CSPzIpSN.js.gz") },
    File { name: "badges-Mc9cb72d.js", gzip: include_bytes!("assets/badges-Mc9cb72d.js.gz") },
    File { name: "compare-BLRgpSBS.js", gzip: include_bytes!("assets/compare-BLRgpSBS.js.gz") },
    File { name: "doc-Bb6xgp8f.js", gzip: include_bytes!("assets/doc-Bb6xgp8f.js.gz") },
    File { name: "explore-Bhxu5cmw.js", gzip: include_bytes!("assets/explore-Bhxu5cmw.js.gz") },
    File { name: "fabric-BbryhyMe.js", gzip: include_bytes!("assets/fabric-BbryhyMe.js.gz") },
    File { name: "filters-D49SNs2N.js", gzip: include_bytes!("assets/filters-D49SNs2N.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-BOiV-XPq.js", gzip: include_bytes!("assets/incident-BOiV-XPq.js.gz") },
    File { name: "incidents-2ZlF_rNc.js", gzip: include_bytes!("assets/incidents-2ZlF_rNc.js.gz") },
    File { name: "index-DvDD0Jyk.css", gzip: include_bytes!("assets/index-DvDD0Jyk.css.gz") },
    File { name: "index-tsORVXWY.js", gzip: include_bytes!("assets/index-tsORVXWY.js.gz") },
    File { name: "job-X2OkjdZn.js", gzip: include_bytes!("assets/job-X2OkjdZn.js.gz") },
    File { name: "jobs-BRIcQZ93.js", gzip: include_bytes!("assets/jobs-BRIcQZ93.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-BXl67HzH.js", gzip: include_bytes!("assets/links-BXl67HzH.js.gz") },
    File { name: "overview-DvQlWyAY.js", gzip: include_bytes!("assets/overview-DvQlWyAY.js.gz") },
    File { name: "plot-CkvJM_LR.js", gzip: include_bytes!("assets/plot-CkvJM_LR.js.gz") },
    File { name: "port-Yocm2RK7.js", gzip: include_bytes!("assets/port-Yocm2RK7.js.gz") },
    File { name: "ports-BDKB81d1.js", gzip: include_bytes!("assets/ports-BDKB81d1.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-X2VeJoIT.js", gzip: include_bytes!("assets/report-X2VeJoIT.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-K4KCLxDl.js", gzip: include_bytes!("assets/status-K4KCLxDl.js.gz") },
    File { name: "table-D8wvtI1k.js", gzip: include_bytes!("assets/table-D8wvtI1k.js.gz") },
    File { name: "types-ZzcpHIq3.js", gzip: include_bytes!("assets/types-ZzcpHIq3.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
