//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"e21e1bba\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-BvRdlrj-.js", gzip: include_bytes!("assets/audit-BvRdlrj-.js.gz") },
    File { name: "badges-DGd-SX3t.js", gzip: include_bytes!("assets/badges-DGd-SX3t.js.gz") },
    File { name: "compare-CsPkGNaL.js", gzip: include_bytes!("assets/compare-CsPkGNaL.js.gz") },
    File { name: "doc-BooD5WVd.js", gzip: include_bytes!("assets/doc-BooD5WVd.js.gz") },
    File { name: "explore-CGkpcuQy.js", gzip: include_bytes!("assets/explore-CGkpcuQy.js.gz") },
    File { name: "fabric-eRE5tfiZ.js", gzip: include_bytes!("assets/fabric-eRE5tfiZ.js.gz") },
    File { name: "filters-BzrVIMu_.js", gzip: include_bytes!("assets/filters-BzrVIMu_.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-l8Jhc9Ij.js", gzip: include_bytes!("assets/incident-l8Jhc9Ij.js.gz") },
    File { name: "incidents-B_XOc0_5.js", gzip: include_bytes!("assets/incidents-B_XOc0_5.js.gz") },
    File { name: "index-CG0Gm3VK.js", gzip: include_bytes!("assets/index-CG0Gm3VK.js.gz") },
    File { name: "index-DvDD0Jyk.css", gzip: include_bytes!("assets/index-DvDD0Jyk.css.gz") },
    File { name: "job-Ce1vhY0x.js", gzip: include_bytes!("assets/job-Ce1vhY0x.js.gz") },
    File { name: "jobs-DviUbBQh.js", gzip: include_bytes!("assets/jobs-DviUbBQh.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-DGNAeZH7.js", gzip: include_bytes!("assets/links-DGNAeZH7.js.gz") },
    File { name: "overview-DqsT4msN.js", gzip: include_bytes!("assets/overview-DqsT4msN.js.gz") },
    File { name: "plot-CtlWSn_K.js", gzip: include_bytes!("assets/plot-CtlWSn_K.js.gz") },
    File { name: "port-DFIsJZSz.js", gzip: include_bytes!("assets/port-DFIsJZSz.js.gz") },
    File { name: "ports-jAZ1o3yO.js", gzip: include_bytes!("assets/ports-jAZ1o3yO.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-CV1J3QS-.js", gzip: include_bytes!("assets/report-CV1J3QS-.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-DOXkrvkz.js", gzip: include_bytes!("assets/status-DOXkrvkz.js.gz") },
    File { name: "table-Cwnu3kOq.js", gzip: include_bytes!("assets/table-Cwnu3kOq.js.gz") },
    File { name: "types-ZzcpHIq3.js", gzip: include_bytes!("assets/types-ZzcpHIq3.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
