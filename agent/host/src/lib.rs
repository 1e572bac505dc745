//! Access to the host: files below a root, the clock, discovery of RDMA devices, netdevs and GPUs, and the capabilities of
//! the process.
//!
//! Lowest crate of the agent: samplers, workload and probes read the host through it. It knows no metric source.
//!
//! ```
//! use fabriclens_agent_host::sysfile::number;
//!
//! assert_eq!(number(b" 42\n"), Ok(42));
//! assert!(number(b"N/A (no PMA)").is_err());
//! ```

pub mod batch;
pub mod capabilities;
pub mod clock;
pub mod discover;
pub mod gpu;
pub mod gpu_affinity;
pub mod inventory;
pub mod no_calls;
pub mod pci_config;
pub mod rails;
pub mod roce_class;
pub mod roots;
pub mod sysfile;
