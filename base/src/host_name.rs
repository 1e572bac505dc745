//! Compares host names. DNS and certificates ignore case, so `GPU-01` is `gpu-01` wherever the programs decide whether two
//! names mean one host. Labels keep the case in which they were sent.

/// Whether two names mean one host.
///
/// ```
/// use fabriclens_base::host_name;
/// assert!(host_name::is_same("GPU-01.example", "gpu-01.Example") && !host_name::is_same("gpu-01", "gpu-01.example"));
/// ```
pub fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// A name in the form in which equal names are equal texts, for keys of maps.
pub fn key(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The part before the first dot.
pub fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}
