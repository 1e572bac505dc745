//! Hosts that a caller's credentials name.

use fabriclens_base::host_name;
use std::net::IpAddr;
use std::sync::Arc;

/// Hosts whose samples a caller may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Any host.
    Any,
    /// These hosts, in lower case.
    Only(Arc<[String]>),
}

impl Hosts {
    /// Whether the set contains a host.
    pub fn has(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(own) => own.iter().any(|own| host_name::is_same(own, host)),
        }
    }
}

/// Names under which a host may send that credentials call `name`: this one, and its part before the first dot, since
/// agents send what `hostname` prints.
pub(super) fn forms(name: &str) -> impl Iterator<Item = String> {
    let key = host_name::key(name);
    let short = host_name::short(&key).to_owned();
    let is_other = short != key && !short.is_empty() && key.parse::<IpAddr>().is_err();
    [Some(key), is_other.then_some(short)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_includes_the_short_one() {
        let bound = Hosts::Only(forms("GPU-01.example.com").collect());
        assert!(bound.has("gpu-01") && bound.has("gpu-01.Example.com"));
        assert!(!bound.has("gpu-01.example") && !bound.has("gpu-02") && !bound.has(""));
        let short = Hosts::Only(forms("gpu-01").collect());
        assert!(short.has("gpu-01") && !short.has("gpu-01.example.com"), "a short name is of no domain");
        assert_eq!(forms("10.0.0.7").collect::<Vec<_>>(), ["10.0.0.7"]);
        assert_eq!(forms(".example").collect::<Vec<_>>(), [".example"]);
    }
}
