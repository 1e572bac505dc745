//! The fuzzer that `cargo xtask fuzz` builds and runs: `FABRICLENS_FUZZ` names the target, `FABRICLENS_FUZZ_SEEDS` the
//! directory that its seeds are written to first. Without a target it lists them.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod fuzzer {
    use fabriclens_fuzz::{corpus, target, targets};
    use std::path::Path;
    use std::sync::OnceLock;

    static RUN: OnceLock<fn(&[u8])> = OnceLock::new();

    #[expect(clippy::disallowed_methods, reason = "libFuzzer owns main, and there is no target to run")]
    fn begin() {
        let Some(target) = std::env::var("FABRICLENS_FUZZ").ok().and_then(|name| target(&name)) else {
            targets::ALL.iter().for_each(|t| println!("{}", t.name));
            std::process::exit(0);
        };
        if let Some(dir) = std::env::var_os("FABRICLENS_FUZZ_SEEDS") {
            for (n, seed) in corpus(target).iter().enumerate() {
                std::fs::write(Path::new(&dir).join(format!("seed-{n:04}")), seed).expect("seeds can be written");
            }
        }
        RUN.get_or_init(|| target.run);
    }

    libfuzzer_sys::fuzz_target!(init: begin(), |data: &[u8]| if let Some(run) = RUN.get() {
        run(data);
    });
}

#[cfg(not(fuzzing))]
fn main() {
    fabriclens_fuzz::targets::ALL.iter().for_each(|t| println!("{:<14} {}", t.name, t.origin));
    eprintln!("this build has no coverage; run `cargo xtask fuzz`");
}
