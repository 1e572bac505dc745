//! Writes the reference page of all metrics: `cargo run -p fabriclens-catalog --example metrics_page [FILE]`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let path = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    match std::fs::write(&path, fabriclens_catalog::page::render()) {
        Ok(()) => {
            println!("wrote {}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot write {}: {error}; give another path as argument", path.display());
            ExitCode::FAILURE
        }
    }
}
