//! Refuses callers whose credential is bound to a host where they would act for others.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use fabriclens_server::auth::{Caller, Hosts};
use fabriclens_server::error::{ApiError, Kind};

/// A caller whose credential is not bound to a host: one host must not acknowledge or silence what others caused.
pub(super) struct Unbound(pub(super) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Unbound {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>();
        let caller = caller.ok_or_else(|| ApiError::new(Kind::Internal, "a request without a caller"))?;
        let Hosts::Only(own) = &caller.hosts else { return Ok(Self(caller.clone())) };
        let message = format!(
            "the credential is bound to {} and may only send samples and report jobs of that host; use one without a host",
            own.join(", ")
        );
        Err(ApiError::new(Kind::Denied, message))
    }
}
