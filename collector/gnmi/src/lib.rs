//! Reads counters of switches by gNMI. The collector connects to each target and subscribes; switches are only read.
//!
//! [`run`] keeps one connection for each target and one stream for each row of [`streams`]; all of them share one thread.
//! A [`Receiver`] gets the values; [`serve`] stores them under the names of the catalog. What a target sends is bounded in
//! size of messages, values per message and bytes per second, so that none delays another.

#![forbid(unsafe_code)]

mod codec;
mod connection;
mod counters;
mod events;
pub mod fuzzing;
mod json;
mod leaf;
mod malformed;
mod message_reader;
mod neighbors;
mod notification;
mod outbox;
mod output;
mod pace;
mod path;
mod path_budget;
pub mod proto;
mod reconnect;
mod series;
mod service;
mod session;
mod stream_receiver;
mod subscriptions;
mod target;

pub use connection::ConnectError;
pub use leaf::{Dialect, Leaf, Receiver, Scalar};
pub use malformed::MalformedMessage;
pub use message_reader::MessageReader;
pub use path::parse;
pub use reconnect::run;
pub use service::serve;
pub use subscriptions::{Pace, Stream, streams};
pub use target::{Clock, Observer, Target};
