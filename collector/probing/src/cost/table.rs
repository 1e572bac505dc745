//! Lines of the printed table.

/// Memory of this process in MB.
pub(super) fn rss_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0 / 1e6
}

/// Prints a line.
pub(super) fn line(what: &str, figure: String) {
    println!("{what:<62}{figure:>24}");
}
