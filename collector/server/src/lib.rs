//! The collector's side of a connection: listeners, TLS, HTTP/1 and HTTP/2, authentication and authorization of requests,
//! request bodies, and the answers that refuse them. The routes themselves are in the crates that answer them.
#![forbid(unsafe_code)]

pub mod auth;
pub mod body;
mod connection;
pub mod error;
pub mod listener;
pub mod retry;
pub mod startup_listener;
pub mod tls;
