//! Tables in a terminal that refresh themselves: `fabriclens top` and `fabriclens-agent top` are made of them.
//!
//! A [`Source`] reads [`Snapshot`]s. [`run`] shows them until the user quits; [`print()`] prints one as text.
//!
//! ```
//! use fabriclens_top::{Cell, Column, Row, Snapshot, Table, print};
//!
//! let table = Table {
//!     name: "Ports",
//!     columns: vec![Column::left("PORT"), Column::right("SENT")],
//!     rows: vec![Row { id: "a".to_owned(), cells: vec![Cell::text("mlx5_0/1"), Cell::number(2e9, "2.0 GB/s")] }],
//!     sort: 1,
//!     empty: "no ports",
//! };
//! let text = print(&Snapshot { summary: "1 port".to_owned(), tables: vec![table] });
//! assert_eq!(text, "1 port\n\nPorts\nPORT          SENT\nmlx5_0/1  2.0 GB/s\n");
//! ```

#![forbid(unsafe_code)]

mod curves;
mod draw;
mod keys;
mod plain;
mod reader;
mod run;
mod source;
mod state;
mod table;
pub mod unit;

pub use curves::Curves;
pub use plain::print;
pub use run::run;
pub use source::{Snapshot, Source};
pub use table::{Cell, Column, Level, Row, Table};
