//! Fuzz targets for every parser of untrusted bytes, listed in [`targets::ALL`]. `cargo xtask fuzz` mutates inputs under
//! coverage; `cargo test` replays seeds and earlier findings. No target may panic, hang or use unbounded memory; some
//! also check properties of the parsed data.

pub mod mutate;
mod paths;
pub mod seeds;
pub mod targets;

use targets::Target;

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    targets::ALL.iter().find(|t| t.name == name)
}

/// Initial inputs of a target: its seeds, and inputs that failed once (`findings/NAME`).
pub fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let found = seeds::files(&format!("fuzz/findings/{}", target.name));
    (target.seeds)().into_iter().chain(found).collect()
}
