//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"cfaf92f4\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-BtNM9svi.js", gzip: include_bytes!("assets/audit-BtNM9svi.js.gz") },
    File { name: "badges-D59XsyMl.js", gzip: include_bytes!("assets/badges-D59XsyMl.js.gz") },
    File { name: "compare-Doz1lf2h.js", gzip: include_bytes!("assets/compare-Doz1lf2h.js.gz") },
    File { name: "doc-CWHSlwfg.js", gzip: include_bytes!("assets/doc-CWHSlwfg.js.gz") },
    File { name: "explore-C8LTne_B.js", gzip: include_bytes!("assets/explore-C8LTne_B.js.gz") },
    File { name: "fabric-DGDkWWxi.js", gzip: include_bytes!("assets/fabric-DGDkWWxi.js.gz") },
    File { name: "filters-DsVsk6pJ.js", gzip: include_bytes!("assets/filters-DsVsk6pJ.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-BG1eD7K8.js", gzip: include_bytes!("assets/incident-BG1eD7K8.js.gz") },
    File { name: "incidents-CUY16n7V.js", gzip: include_bytes!("assets/incidents-CUY16n7V.js.gz") },
    File { name: "index-B8Bei4Wn.js", gzip: include_bytes!("assets/index-B8Bei4Wn.js.gz") },
    File { name: "index-DvDD0Jyk.css", gzip: include_bytes!("assets/index-DvDD0Jyk.css.gz") },
    File { name: "job-CD8i8OhP.js", gzip: include_bytes!("assets/job-CD8i8OhP.js.gz") },
    File { name: "jobs-CO5Uw9_T.js", gzip: include_bytes!("assets/jobs-CO5Uw9_T.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-Cr2h-h78.js", gzip: include_bytes!("assets/links-Cr2h-h78.js.gz") },
    File { name: "overview-CN3wjN_4.js", gzip: include_bytes!("assets/overview-CN3wjN_4.js.gz") },
    File { name: "plot-BV6bO088.js", gzip: include_bytes!("assets/plot-BV6bO088.js.gz") },
    File { name: "port-DhnvSeh4.js", gzip: include_bytes!("assets/port-DhnvSeh4.js.gz") },
    File { name: "ports-CLRkC128.js", gzip: include_bytes!("assets/ports-CLRkC128.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-BnPlV7kq.js", gzip: include_bytes!("assets/report-BnPlV7kq.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-DFrHIioZ.js", gzip: include_bytes!("assets/status-DFrHIioZ.js.gz") },
    File { name: "table-DSIBz0St.js", gzip: include_bytes!("assets/table-DSIBz0St.js.gz") },
    File { name: "types-ZzcpHIq3.js", gzip: include_bytes!("assets/types-ZzcpHIq3.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
