//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"2c6a0131\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-xxmYUrYN.js", gzip: include_bytes!("assets/audit-xxmYUrYN.js.gz") },
    File { name: "badges-BZjnnDSP.js", gzip: include_bytes!("assets/badges-BZjnnDSP.js.gz") },
    File { name: "compare-CRxsx8DM.js", gzip: include_bytes!("assets/compare-CRxsx8DM.js.gz") },
    File { name: "doc-Chcd0Mz1.js", gzip: include_bytes!("assets/doc-Chcd0Mz1.js.gz") },
    File { name: "explore-DlDW-TAo.js", gzip: include_bytes!("assets/explore-DlDW-TAo.js.gz") },
    File { name: "fabric-CVdKpA_Q.js", gzip: include_bytes!("assets/fabric-CVdKpA_Q.js.gz") },
    File { name: "filters-DP8qZvJq.js", gzip: include_bytes!("assets/filters-DP8qZvJq.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-DU8JMk2s.js", gzip: include_bytes!("assets/incident-DU8JMk2s.js.gz") },
    File { name: "incidents-DyGyflTH.js", gzip: include_bytes!("assets/incidents-DyGyflTH.js.gz") },
    File { name: "index-Lru6ngF2.css", gzip: include_bytes!("assets/index-Lru6ngF2.css.gz") },
    File { name: "index-TYozkLPh.js", gzip: include_bytes!("assets/index-TYozkLPh.js.gz") },
    File { name: "job-uJzHXc_Q.js", gzip: include_bytes!("assets/job-uJzHXc_Q.js.gz") },
    File { name: "jobs-63ZhTMRX.js", gzip: include_bytes!("assets/jobs-63ZhTMRX.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-BOZmWep4.js", gzip: include_bytes!("assets/links-BOZmWep4.js.gz") },
    File { name: "overview-DPWQv874.js", gzip: include_bytes!("assets/overview-DPWQv874.js.gz") },
    File { name: "plot-DwZBVOFG.js", gzip: include_bytes!("assets/plot-DwZBVOFG.js.gz") },
    File { name: "port-CjS0pUD0.js", gzip: include_bytes!("assets/port-CjS0pUD0.js.gz") },
    File { name: "ports-DTUirLY6.js", gzip: include_bytes!("assets/ports-DTUirLY6.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-Bv4ru4kl.js", gzip: include_bytes!("assets/report-Bv4ru4kl.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-IwyJBpwe.js", gzip: include_bytes!("assets/status-IwyJBpwe.js.gz") },
    File { name: "table-ClhVcBKZ.js", gzip: include_bytes!("assets/table-ClhVcBKZ.js.gz") },
    File { name: "types-ZzcpHIq3.js", gzip: include_bytes!("assets/types-ZzcpHIq3.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
