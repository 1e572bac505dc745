//! Forwarding tables of this host's InfiniBand subnet: the thread that reads the subnet shares them, and a task for each
//! collector tells it what it does not know yet, over the connection of the uplink.

mod shared;
mod task;

pub use shared::SharedTables;
pub use task::ForwardingTask;
