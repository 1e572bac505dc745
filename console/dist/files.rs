//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"7ca4d954\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-Br6eiXSJ.js", gzip: include_bytes!("assets/audit-Br6eiXSJ.js.gz") },
    File { name: "badges-CWkx8_qA.js", gzip: include_bytes!("assets/badges-CWkx8_qA.js.gz") },
    File { name: "compare-D8EcSwPZ.js", gzip: include_bytes!("assets/compare-D8EcSwPZ.js.gz") },
    File { name: "doc-c570gneS.js", gzip: include_bytes!("assets/doc-c570gneS.js.gz") },
    File { name: "explore-CQLL4OYK.js", gzip: include_bytes!("assets/explore-CQLL4OYK.js.gz") },
    File { name: "fabric-BChPYeEk.js", gzip: include_bytes!("assets/fabric-BChPYeEk.js.gz") },
    File { name: "filters-D691Nc-K.js", gzip: include_bytes!("assets/filters-D691Nc-K.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-CKUHNmbR.js", gzip: include_bytes!("assets/incident-CKUHNmbR.js.gz") },
    File { name: "incidents-DbvFgoHi.js", gzip: include_bytes!("assets/incidents-DbvFgoHi.js.gz") },
    File { name: "index-DRsBlb1L.css", gzip: include_bytes!("assets/index-DRsBlb1L.css.gz") },
    File { name: "index-DvXeIS_X.js", gzip: include_bytes!("assets/index-DvXeIS_X.js.gz") },
    File { name: "job-C8cDKLCh.js", gzip: include_bytes!("assets/job-C8cDKLCh.js.gz") },
    File { name: "jobs-DFrf_9N0.js", gzip: include_bytes!("assets/jobs-DFrf_9N0.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-tArIrLAH.js", gzip: include_bytes!("assets/links-tArIrLAH.js.gz") },
    File { name: "overview-C8CybR1F.js", gzip: include_bytes!("assets/overview-C8CybR1F.js.gz") },
    File { name: "plot-CLuWTtKz.js", gzip: include_bytes!("assets/plot-CLuWTtKz.js.gz") },
    File { name: "port-CVYgxhuc.js", gzip: include_bytes!("assets/port-CVYgxhuc.js.gz") },
    File { name: "ports-DKxSlfC0.js", gzip: include_bytes!("assets/ports-DKxSlfC0.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-J3s5Dlc8.js", gzip: include_bytes!("assets/report-J3s5Dlc8.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-B8BDusTV.js", gzip: include_bytes!("assets/status-B8BDusTV.js.gz") },
    File { name: "table-DEXnqwUK.js", gzip: include_bytes!("assets/table-DEXnqwUK.js.gz") },
    File { name: "types-ZJGN8CLh.js", gzip: include_bytes!("assets/types-ZJGN8CLh.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
