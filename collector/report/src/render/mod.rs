//! Renders a report as HTML or Markdown. All texts of jobs, hosts and devices are untrusted and are escaped.

mod collective_tables;
mod html;
mod markdown;
mod path_drawing;
mod path_words;
mod svg;
mod tables;
pub(crate) mod words;

pub use html::html;
pub use markdown::markdown;
