//! Access to the host: files below a root, the clock, discovery of RDMA devices and netdevs, and the capabilities of
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
pub mod inventory;
pub mod no_calls;
pub mod rails;
pub mod roots;
pub mod sysfile;
