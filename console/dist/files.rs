//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"0153b0c0\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-wv2rpS_v.js", gzip: include_bytes!("assets/audit-wv2rpS_v.js.gz") },
    File { name: "badges-BRT5LK2g.js", gzip: include_bytes!("assets/badges-BRT5LK2g.js.gz") },
    File { name: "compare-BIeF2MbE.js", gzip: include_bytes!("assets/compare-BIeF2MbE.js.gz") },
    File { name: "doc-TD5tgE6q.js", gzip: include_bytes!("assets/doc-TD5tgE6q.js.gz") },
    File { name: "explore-_9vf3Rs1.js", gzip: include_bytes!("assets/explore-_9vf3Rs1.js.gz") },
    File { name: "fabric-DaPoSZdv.js", gzip: include_bytes!("assets/fabric-DaPoSZdv.js.gz") },
    File { name: "filters-Bg3E3AOt.js", gzip: include_bytes!("assets/filters-Bg3E3AOt.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-SRyQHSAy.js", gzip: include_bytes!("assets/incident-SRyQHSAy.js.gz") },
    File { name: "incidents-Cx9zpQ4V.js", gzip: include_bytes!("assets/incidents-Cx9zpQ4V.js.gz") },
    File { name: "index-C-02Gtgl.js", gzip: include_bytes!("assets/index-C-02Gtgl.js.gz") },
    File { name: "index-DvDD0Jyk.css", gzip: include_bytes!("assets/index-DvDD0Jyk.css.gz") },
    File { name: "job-DYRyORTt.js", gzip: include_bytes!("assets/job-DYRyORTt.js.gz") },
    File { name: "jobs-CVn8cttM.js", gzip: include_bytes!("assets/jobs-CVn8cttM.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-DET7PkA-.js", gzip: include_bytes!("assets/links-DET7PkA-.js.gz") },
    File { name: "overview-CL_E94VA.js", gzip: include_bytes!("assets/overview-CL_E94VA.js.gz") },
    File { name: "plot-DbQg646_.js", gzip: include_bytes!("assets/plot-DbQg646_.js.gz") },
    File { name: "port-YHuQZMT9.js", gzip: include_bytes!("assets/port-YHuQZMT9.js.gz") },
    File { name: "ports-BcVyOSlX.js", gzip: include_bytes!("assets/ports-BcVyOSlX.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-OV-7-KKN.js", gzip: include_bytes!("assets/report-OV-7-KKN.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-DW5JanQJ.js", gzip: include_bytes!("assets/status-DW5JanQJ.js.gz") },
    File { name: "table-uhySpgiY.js", gzip: include_bytes!("assets/table-uhySpgiY.js.gz") },
    File { name: "types-ZzcpHIq3.js", gzip: include_bytes!("assets/types-ZzcpHIq3.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
