//! The server side of a connection: listeners, TLS, HTTP/1 and HTTP/2, authentication and authorization, request
//! bodies, and refusals. Handlers and their tables of [`route::Route`] are in the crates `fabriclens-api` and
//! `fabriclens-ingest`. A row states the access that its handler requires:
//!
//! ```
//! use axum::http::Method;
//! use fabriclens_config::Access;
//! use fabriclens_server::route::{Route, route};
//!
//! async fn version() -> &'static str {
//!     "1.0"
//! }
//!
//! let routes: Vec<Route<()>> = vec![route(Access::Read, &[Method::GET], "/api/v1/version", version)];
//! assert_eq!((routes[0].access, routes[0].path), (Access::Read, "/api/v1/version"));
//! ```
#![forbid(unsafe_code)]

mod activity;
pub mod answers;
pub mod auth;
pub mod body;
mod connection;
pub mod error;
mod listen_error;
pub mod listener;
pub mod peer;
mod places;
pub mod retry;
pub mod route;
mod security_headers;
pub mod startup_listener;
pub mod tls;
