//! Written by `cargo xtask console`.

use super::file::File;

/// The page.
pub(crate) const PAGE: &str = include_str!("index.html");

/// Its entity tag.
pub(crate) const PAGE_ETAG: &str = "\"b574e2d4\"";

/// Its scripts and styles.
pub(crate) const ASSETS: &[File] = &[
    File { name: "asked-Dgmj6gaG.js", gzip: include_bytes!("assets/asked-Dgmj6gaG.js.gz") },
    File { name: "audit-B1ETVQpz.js", gzip: include_bytes!("assets/audit-B1ETVQpz.js.gz") },
    File { name: "badges-BHkD8eU9.js", gzip: include_bytes!("assets/badges-BHkD8eU9.js.gz") },
    File { name: "compare-Cu87uQ1Z.js", gzip: include_bytes!("assets/compare-Cu87uQ1Z.js.gz") },
    File { name: "doc-M9WYMkNa.js", gzip: include_bytes!("assets/doc-M9WYMkNa.js.gz") },
    File { name: "explore-Xe7vEWtg.js", gzip: include_bytes!("assets/explore-Xe7vEWtg.js.gz") },
    File { name: "fabric-DtC77YoG.js", gzip: include_bytes!("assets/fabric-DtC77YoG.js.gz") },
    File { name: "filters-YIWzT5JQ.js", gzip: include_bytes!("assets/filters-YIWzT5JQ.js.gz") },
    File { name: "icon-BtSouHFe.svg", gzip: include_bytes!("assets/icon-BtSouHFe.svg.gz") },
    File { name: "incident-oKmpvUiz.js", gzip: include_bytes!("assets/incident-oKmpvUiz.js.gz") },
    File { name: "incidents-CmOL5BSu.js", gzip: include_bytes!("assets/incidents-CmOL5BSu.js.gz") },
    File { name: "index-CjnnerKM.js", gzip: include_bytes!("assets/index-CjnnerKM.js.gz") },
    File { name: "index-DvDD0Jyk.css", gzip: include_bytes!("assets/index-DvDD0Jyk.css.gz") },
    File { name: "job-D2eeCDct.js", gzip: include_bytes!("assets/job-D2eeCDct.js.gz") },
    File { name: "jobs-HGYD7m-M.js", gzip: include_bytes!("assets/jobs-HGYD7m-M.js.gz") },
    File { name: "layout-BL6wKDiK.js", gzip: include_bytes!("assets/layout-BL6wKDiK.js.gz") },
    File { name: "links-AcmwCdfy.js", gzip: include_bytes!("assets/links-AcmwCdfy.js.gz") },
    File { name: "overview-BnUAnISq.js", gzip: include_bytes!("assets/overview-BnUAnISq.js.gz") },
    File { name: "plot-igeK9h9d.js", gzip: include_bytes!("assets/plot-igeK9h9d.js.gz") },
    File { name: "port-CE2goL06.js", gzip: include_bytes!("assets/port-CE2goL06.js.gz") },
    File { name: "ports-puujgPgL.js", gzip: include_bytes!("assets/ports-puujgPgL.js.gz") },
    File { name: "promql-w6lwbqoi.js", gzip: include_bytes!("assets/promql-w6lwbqoi.js.gz") },
    File { name: "report-DBfvPc91.js", gzip: include_bytes!("assets/report-DBfvPc91.js.gz") },
    File { name: "signals-TbzfpLH2.js", gzip: include_bytes!("assets/signals-TbzfpLH2.js.gz") },
    File { name: "status-BzQTyf8r.js", gzip: include_bytes!("assets/status-BzQTyf8r.js.gz") },
    File { name: "table-Be_8QLI4.js", gzip: include_bytes!("assets/table-Be_8QLI4.js.gz") },
    File { name: "types-ZzcpHIq3.js", gzip: include_bytes!("assets/types-ZzcpHIq3.js.gz") },
    File { name: "units-Btl73muh.js", gzip: include_bytes!("assets/units-Btl73muh.js.gz") },
];
