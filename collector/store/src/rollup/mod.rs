//! Rollups: minimum, maximum, mean and last value of each minute of a series, and the increase of a counter. They are
//! ordinary blocks in a directory of their own and are kept longer than samples. A block is rolled up once its window
//! is complete for now; later samples form a new block, which is rolled up again. Of two rollups of one minute the
//! newer one wins.

mod build;
mod kind;
mod read;
mod rolled_up;
mod source;

pub use kind::{LABEL, name, sample_labels};
pub use rolled_up::{RolledUp, TABLE, newest_first};
pub use source::RollupSource;
