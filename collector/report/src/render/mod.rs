//! A report as text for people. Every text of a job, host or device is somebody else's and is escaped.

mod html;
mod markdown;
mod svg;
mod tables;
pub(crate) mod words;

pub use html::html;
pub use markdown::markdown;
