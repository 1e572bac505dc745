//! `cargo xtask scenarios`: writes the simulated scenarios with ground truth that the tests of the detectors read.

use crate::sim::scenario::write_all;
use anyhow::Result;

/// Writes `tests/fixtures/scenarios`.
///
/// # Errors
/// When a file cannot be written.
pub fn run() -> Result<()> {
    let dir = fabriclens_testing::scenarios();
    write_all(&dir)?;
    println!("wrote {}", dir.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::sim::scenario::{ALL, write_all};
    use flate2::read::MultiGzDecoder;
    use std::io::Read as _;
    use std::path::Path;

    /// Contents of a file, uncompressed: another version of the compressor may write other bytes.
    fn contents(path: &Path) -> String {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut text = String::new();
        match path.extension().is_some_and(|e| e == "gz") {
            true => MultiGzDecoder::new(bytes.as_slice()).read_to_string(&mut text).map(|_| text).unwrap(),
            false => String::from_utf8(bytes).unwrap(),
        }
    }

    #[test]
    fn committed_scenarios_are_current() {
        let now = tempfile::tempdir().unwrap();
        write_all(now.path()).unwrap();
        for scenario in ALL {
            for file in ["topology.json", "jobs.json", "ports.csv.gz", "truth.json"] {
                let path = Path::new(scenario.name).join(file);
                let committed = contents(&fabriclens_testing::scenarios().join(&path));
                assert!(
                    committed == contents(&now.path().join(&path)),
                    "{} differs: run cargo xtask scenarios",
                    path.display()
                );
            }
        }
    }
}
