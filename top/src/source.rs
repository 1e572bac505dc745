//! Where tables come from.

use crate::table::Table;

/// All tables at one instant.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The state of all, in one line.
    pub summary: String,
    /// Tables; the same ones in every snapshot of a source.
    pub tables: Vec<Table>,
}

/// Reads snapshots. It is called by a thread of its own, so that it may wait for a server.
pub trait Source: Send {
    /// Reads all tables.
    ///
    /// # Errors
    /// A sentence for the user. What was shown before stays, marked as old.
    fn read(&mut self) -> Result<Snapshot, String>;

    /// All that is known of a row, as lines.
    ///
    /// # Errors
    /// A sentence for the user.
    fn detail(&mut self, table: usize, id: &str) -> Result<String, String>;
}
