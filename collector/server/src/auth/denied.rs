//! Reasons for refusing a request.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;

/// A request is refused; `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No credentials.
    #[error(
        "authentication required: send a token (Authorization: Bearer TOKEN, fabriclens --token-file FILE) or present a client certificate"
    )]
    NoCredentials,
    /// Unknown token.
    #[error("unknown token; create one with fabriclens token new and add its line to the file auth.tokens")]
    UnknownToken,
    /// Expired token.
    #[error("the token {name} expired at {at}; create another with fabriclens token new")]
    ExpiredToken {
        /// Name of the token.
        name: Arc<str>,
        /// Expiry, RFC 3339.
        at: String,
    },
    /// A header of the proxy occurs twice: the client sent its own.
    #[error("the header {0} occurs twice; the proxy must replace it, not add its own")]
    DuplicateHeader(HeaderName),
    /// The caller lacks the required role.
    #[error("{name} has {may}, but the request needs {needs}; grant the role in auth.{by}")]
    MissingRole {
        /// Caller.
        name: Arc<str>,
        /// Roles of the caller.
        may: String,
        /// Required role.
        needs: &'static str,
        /// Config key that assigns roles to such callers.
        by: &'static str,
    },
    /// A browser sent the request from a page of another site.
    #[error(
        "the request comes from a page of {origin}; a browser may send requests from this collector's own pages only"
    )]
    CrossSite {
        /// Origin of the page.
        origin: String,
    },
    /// The requested host name is not one of this collector (DNS rebinding).
    #[error(
        "{host} is not a name of this collector: without authentication, a loopback listener answers only to addresses, localhost and the host's own name; set external_url to the URL that people use, or auth.tokens"
    )]
    ForeignHost {
        /// Requested host name.
        host: String,
    },
    /// No place is left but those for health checks.
    #[error("too many connections have requests in progress (listen.connections); retry in a moment")]
    Connections,
    /// Rate limit exceeded.
    #[error("more than {per_second} requests a second (listen.requests); retry in {} ms", .after.as_millis())]
    RateLimit {
        /// Requests per second.
        per_second: u32,
        /// Time to wait before the next request.
        after: Duration,
    },
}

impl Denied {
    /// Value of the `reason` label.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoCredentials => "nobody",
            Self::UnknownToken => "unknown",
            Self::ExpiredToken { .. } => "expired",
            Self::DuplicateHeader(_) => "twice",
            Self::MissingRole { .. } => "role",
            Self::CrossSite { .. } => "cross_site",
            Self::ForeignHost { .. } => "host",
            Self::Connections => "connections",
            Self::RateLimit { .. } => "rate",
        }
    }
}
