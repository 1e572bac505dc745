//! What the agent and the collector share besides samples: quantities as people write them, files that are reloaded,
//! host names that a loopback listener answers to, escaping, errors with their causes, sealed records, bounds by sender, files that are opened without following links.
//! No async.
//!
//! ```
//! use std::time::Duration;
//! assert_eq!(fabriclens_base::duration::parse("1h30m"), Ok(Duration::from_secs(5400)));
//! assert_eq!(fabriclens_base::size::parse("100GB"), Ok(100_000_000_000));
//! assert_eq!(fabriclens_base::nearest("listen.htpp", ["listen.http", "data"]), Some("listen.http"));
//! ```

pub mod duration;
pub mod error_chain;
pub mod escape;
pub mod host_check;
pub mod host_name;
pub mod infiniband;
mod nearest;
mod on_threads;
pub mod open_files;
pub mod owned;
pub mod reload;
pub mod sealed;
mod sender;
pub mod size;
pub mod terminal;
pub mod time;

pub use nearest::nearest;
pub use on_threads::on_threads;
pub use sender::{Sender, SenderUsage, is_large_share, open_to_unbound};
