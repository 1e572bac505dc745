//! The server side of a connection: listeners, TLS, HTTP/1 and HTTP/2, authentication and authorization, request
//! bodies, and refusals. Handlers and their tables of [`route::Route`] are in the crates `fabriclens-api` and
//! `fabriclens-ingest`.
#![forbid(unsafe_code)]

pub mod auth;
pub mod body;
mod connection;
pub mod error;
mod listen_error;
pub mod listener;
pub mod peer;
pub mod retry;
pub mod route;
mod security_headers;
pub mod startup_listener;
pub mod tls;
