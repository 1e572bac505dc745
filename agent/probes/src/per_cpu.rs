//! Reads per-CPU maps of probes.

use aya::maps::{MapData, PerCpuArray};
use fabriclens_agent_host::batch::SampleError;
use fabriclens_base::error_chain::with_causes;

/// Sum over CPUs of the record at `place`.
///
/// # Errors
/// `Failed` if the kernel cannot read the map.
pub fn summed<const N: usize>(
    map: &PerCpuArray<MapData, [u64; N]>,
    place: u32,
    out: &mut [u64; N],
) -> Result<(), SampleError> {
    let records = map.get(&place, 0).map_err(|e| SampleError::Failed(format!("reading a map: {}", with_causes(&e))))?;
    *out = [0; N];
    for record in records.iter() {
        out.iter_mut().zip(record).for_each(|(sum, n)| *sum = sum.wrapping_add(*n));
    }
    Ok(())
}
