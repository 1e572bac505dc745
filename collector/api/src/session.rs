//! `/api/v1/session`: who the collector takes the caller for, and what that caller may do. Open to everyone, so that the console can
//! say what is missing.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use serde::Serialize;

use super::Api;
use super::blocking::internal;
use super::encode::{self, Json};
use fabriclens_config::Access;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::ApiError;

/// Access that a caller may have, by the word of the answer.
const ACCESS: [(&str, Access); 3] = [("read", Access::Read), ("write", Access::Write), ("admin", Access::Admin)];

#[derive(Serialize)]
struct Session<'a> {
    /// Whether callers must authenticate.
    authentication: bool,
    /// Name of the token, certificate or user; absent if the caller has none.
    caller: Option<&'a str>,
    /// What the caller may do: `read`, `write`, `admin`.
    may: Vec<&'static str>,
    /// Version of the collector.
    version: &'static str,
}

/// Describes the caller.
pub(super) async fn session(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json, ApiError> {
    let authentication = api.config.requires_authentication();
    let granted = ACCESS.iter().filter(|(_, access)| !authentication || caller.roles.grant(*access));
    let may = granted.map(|(word, _)| *word).collect();
    let session = Session { authentication, caller: caller.name.as_deref(), may, version: env!("CARGO_PKG_VERSION") };
    let text = serde_json::to_string(&session).map_err(internal)?;
    Ok(encode::success(|out| out.push_str(&text)))
}
