//! Whatever comes from outside, fed with what nobody would send: [`targets::ALL`] has a row for each reader of foreign
//! bytes. `cargo xtask fuzz` mutates under coverage; `cargo test` replays seeds and what was found before. Nothing may
//! panic, hang or take memory without bound, and some rows hold what is read to a property.

pub mod mutate;
mod paths;
pub mod seeds;
pub mod targets;

use targets::Target;

/// The row of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    targets::ALL.iter().find(|t| t.name == name)
}

/// What a target begins with: made, taken from the repository, and inputs that failed once (`findings/NAME`).
pub fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let found = seeds::files(&format!("fuzz/findings/{}", target.name));
    (target.seeds)().into_iter().chain(found).collect()
}
