//! What has been appended and is not yet in a block, one generation per log.

pub mod chunk;
pub mod generation;
pub mod layout;
pub mod limits;
pub mod rows;
pub mod series;
mod slow;
