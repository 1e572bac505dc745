//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"27755b5e\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-Q-9DfdRz.js", gzip: include_bytes!("assets/audit-Q-9DfdRz.js.gz") },
    File { name: "badges-CK3YO74P.js", gzip: include_bytes!("assets/badges-CK3YO74P.js.gz") },
    File { name: "compare-D3wmNjtH.js", gzip: include_bytes!("assets/compare-D3wmNjtH.js.gz") },
    File { name: "doc-DELO3gC-.js", gzip: include_bytes!("assets/doc-DELO3gC-.js.gz") },
    File { name: "explore-Ct9B4KcD.js", gzip: include_bytes!("assets/explore-Ct9B4KcD.js.gz") },
    File { name: "fabric-ComCV6Is.js", gzip: include_bytes!("assets/fabric-ComCV6Is.js.gz") },
    File { name: "filters-SoBO_o0V.js", gzip: include_bytes!("assets/filters-SoBO_o0V.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-DZvvmQNO.js", gzip: include_bytes!("assets/incident-DZvvmQNO.js.gz") },
    File { name: "incidents-CUvjMaLe.js", gzip: include_bytes!("assets/incidents-CUvjMaLe.js.gz") },
    File { name: "index-DIu5AGUF.js", gzip: include_bytes!("assets/index-DIu5AGUF.js.gz") },
    File { name: "index-DRsBlb1L.css", gzip: include_bytes!("assets/index-DRsBlb1L.css.gz") },
    File { name: "job-DzsEhKzI.js", gzip: include_bytes!("assets/job-DzsEhKzI.js.gz") },
    File { name: "jobs-mrF8sWq6.js", gzip: include_bytes!("assets/jobs-mrF8sWq6.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-DNWw810K.js", gzip: include_bytes!("assets/links-DNWw810K.js.gz") },
    File { name: "overview-R2Tx3JCO.js", gzip: include_bytes!("assets/overview-R2Tx3JCO.js.gz") },
    File { name: "plot-BcPpB8Xu.js", gzip: include_bytes!("assets/plot-BcPpB8Xu.js.gz") },
    File { name: "port-BONgu0g0.js", gzip: include_bytes!("assets/port-BONgu0g0.js.gz") },
    File { name: "ports-hRxkg1rh.js", gzip: include_bytes!("assets/ports-hRxkg1rh.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-C4pSdnil.js", gzip: include_bytes!("assets/report-C4pSdnil.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-NuF9kxql.js", gzip: include_bytes!("assets/status-NuF9kxql.js.gz") },
    File { name: "table-CaaOMOcb.js", gzip: include_bytes!("assets/table-CaaOMOcb.js.gz") },
    File { name: "types-ZJGN8CLh.js", gzip: include_bytes!("assets/types-ZJGN8CLh.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
