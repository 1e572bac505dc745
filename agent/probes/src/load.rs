//! Loads an object and finds its programs and maps, for all probes.

use aya::{Ebpf, EbpfLoader};
use fabriclens_agent_host::batch::SampleError;
use fabriclens_agent_host::capabilities;
use fabriclens_agent_host::roots::Roots;
use fabriclens_base::error_chain::with_causes;
use std::collections::BTreeMap;

/// Remedy for a probe that the kernel refuses.
const REMEDY: &str = "run the agent as root or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, on Linux 5.15 or later";

/// Longest kernel message; longer ones are cut.
const LONGEST: usize = 600;

/// Checks the preconditions first: searching the kernel's types takes a while, and an agent without the capability
/// would repeat it with every retry.
///
/// # Errors
/// `Absent`, with the remedy.
pub fn possible(roots: &Roots) -> Result<(), SampleError> {
    if roots.is_recorded() {
        return Err(SampleError::Absent("a recorded host has no running kernel".into()));
    }
    if !capabilities::may_load() {
        return Err(SampleError::Absent(format!("Operation not permitted: CAP_BPF is missing; {REMEDY}")));
    }
    Ok(())
}

/// Loads an object.
///
/// # Errors
/// `Absent` with the remedy if this host, kernel or the agent's privileges do not permit it.
pub(crate) fn load(
    roots: &Roots,
    object: &[u8],
    globals: &BTreeMap<&'static str, u32>,
    sizes: &[(&'static str, u32)],
) -> Result<Ebpf, SampleError> {
    possible(roots)?;
    let mut loader = EbpfLoader::new();
    // BTF relocation is not used: the probe gets its offsets through globals, and the kernel's types are large.
    loader.btf(None);
    for (global, value) in globals {
        loader.override_global(global, value, true);
    }
    for (map, entries) in sizes {
        loader.map_max_entries(map, *entries);
    }
    loader.load(object).map_err(|e| absent("loading the probe", &e))
}

/// `Absent` with the failed step, its cause and the remedy.
pub(crate) fn absent(what: &str, error: &dyn std::error::Error) -> SampleError {
    SampleError::Absent(format!("{what}: {}; {REMEDY}", short(&with_causes(error))))
}

/// Shortens the verifier's log to its first line and its last ones, which give the reason.
fn short(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.as_slice() {
        [first, .., reason, times, depth, processed, last] if text.len() > LONGEST => {
            let head: String = first.chars().take(LONGEST / 2).collect();
            [&head, "…", reason, times, depth, processed, last].join(" ")
        }
        _ => text.to_owned(),
    }
}

/// Program of a loaded object.
///
/// # Errors
/// `Failed` if the object has no such program, because object and agent do not match.
pub(crate) fn program<'a, T>(probe: &'a mut Ebpf, name: &str) -> Result<&'a mut T, SampleError>
where
    &'a mut T: TryFrom<&'a mut aya::programs::Program, Error = aya::programs::ProgramError>,
{
    let program =
        probe.program_mut(name).ok_or_else(|| SampleError::Failed(format!("the probe has no program {name}")))?;
    program.try_into().map_err(|e| SampleError::Failed(format!("program {name}: {}", with_causes(&e))))
}

/// Map of a loaded object.
///
/// # Errors
/// `Failed` if the object has no such map, because object and agent do not match.
pub(crate) fn map<T: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    probe: &mut Ebpf,
    name: &str,
) -> Result<T, SampleError> {
    let map = probe.take_map(name).ok_or_else(|| SampleError::Failed(format!("the probe has no map {name}")))?;
    T::try_from(map).map_err(|e| SampleError::Failed(format!("map {name}: {}", with_causes(&e))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifier_log_is_cut_to_its_conclusion() {
        let log = format!(
            "refused: {}\nR5 prohibited for !root\ntime 1\nstack 2\nprocessed 3\n: EACCES",
            "0: r1\n".repeat(500)
        );
        let said = short(&log);
        assert!(said.len() < LONGEST && said.starts_with("refused") && said.contains("prohibited for !root"), "{said}");
        assert_eq!(short("Operation not permitted"), "Operation not permitted");
    }
}
