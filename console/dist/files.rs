//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"2f3122a2\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-C6AlfWyB.js", gzip: include_bytes!("assets/audit-C6AlfWyB.js.gz") },
    File { name: "badges-sI7qjkBC.js", gzip: include_bytes!("assets/badges-sI7qjkBC.js.gz") },
    File { name: "compare-BdYeK04T.js", gzip: include_bytes!("assets/compare-BdYeK04T.js.gz") },
    File { name: "doc-DwOoq4o6.js", gzip: include_bytes!("assets/doc-DwOoq4o6.js.gz") },
    File { name: "explore-CBwnESNl.js", gzip: include_bytes!("assets/explore-CBwnESNl.js.gz") },
    File { name: "fabric-BRjurihp.js", gzip: include_bytes!("assets/fabric-BRjurihp.js.gz") },
    File { name: "filters-DS6jcpPF.js", gzip: include_bytes!("assets/filters-DS6jcpPF.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-B_2CYZcM.js", gzip: include_bytes!("assets/incident-B_2CYZcM.js.gz") },
    File { name: "incidents-Bqt78lhr.js", gzip: include_bytes!("assets/incidents-Bqt78lhr.js.gz") },
    File { name: "index-DV_l_rd6.js", gzip: include_bytes!("assets/index-DV_l_rd6.js.gz") },
    File { name: "index-DvDD0Jyk.css", gzip: include_bytes!("assets/index-DvDD0Jyk.css.gz") },
    File { name: "job-CI804uuu.js", gzip: include_bytes!("assets/job-CI804uuu.js.gz") },
    File { name: "jobs-D2zcwv0u.js", gzip: include_bytes!("assets/jobs-D2zcwv0u.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-DrLBQOce.js", gzip: include_bytes!("assets/links-DrLBQOce.js.gz") },
    File { name: "overview-CWwrHiFb.js", gzip: include_bytes!("assets/overview-CWwrHiFb.js.gz") },
    File { name: "plot-BMAm4R0k.js", gzip: include_bytes!("assets/plot-BMAm4R0k.js.gz") },
    File { name: "port-BgaNE_mj.js", gzip: include_bytes!("assets/port-BgaNE_mj.js.gz") },
    File { name: "ports-OU7Mr5NC.js", gzip: include_bytes!("assets/ports-OU7Mr5NC.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-BMWRP5Tp.js", gzip: include_bytes!("assets/report-BMWRP5Tp.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-B8O6z2VX.js", gzip: include_bytes!("assets/status-B8O6z2VX.js.gz") },
    File { name: "table-D3v6fKEU.js", gzip: include_bytes!("assets/table-D3v6fKEU.js.gz") },
    File { name: "types-ZzcpHIq3.js", gzip: include_bytes!("assets/types-ZzcpHIq3.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
