//! Why a request is refused.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;

/// Why a request is refused; `Display` names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It says nothing of who made it.
    #[error(
        "this collector wants to know who asks: send a token (Authorization: Bearer TOKEN, fabriclens --token-file FILE) or show a certificate"
    )]
    Nobody,
    /// Its token is none.
    #[error("the token is not known here; fabriclens token new makes one, and its line goes into auth.tokens")]
    Unknown,
    /// Its token was one.
    #[error("the token {name} expired at {at}; fabriclens token new makes another")]
    Expired {
        /// Whose.
        name: Arc<str>,
        /// RFC 3339.
        at: String,
    },
    /// Two say who it is.
    #[error("the header {0} came twice; the proxy must replace it, not add its own")]
    Twice(HeaderName),
    /// Known, and not allowed.
    #[error("{name} may {may}, and this needs {needs}; give it the role in auth.{by}")]
    Role {
        /// Who.
        name: Arc<str>,
        /// Its roles.
        may: String,
        /// What would be enough.
        needs: &'static str,
        /// Which part of the config tells its roles.
        by: &'static str,
    },
    /// A page of somebody else's made a browser ask.
    #[error("a page of {origin} asked for it; this collector takes changes from its own pages only")]
    CrossSite {
        /// Whose page.
        origin: String,
    },
    /// It is asked by a name that somebody else may have made lead here.
    #[error(
        "{host} is no name of this collector: while it asks nobody who they are, it answers on loopback to addresses, localhost and its own name; set external_url to the URL that people use, or auth.tokens"
    )]
    Host {
        /// The name.
        host: String,
    },
    /// Too often.
    #[error("more than {per_second} requests a second (listen.requests); come back in {} ms", .after.as_millis())]
    Rate {
        /// The limit.
        per_second: u32,
        /// When to come back.
        after: Duration,
    },
}

impl Denied {
    /// Word for the metric.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Unknown => "unknown",
            Self::Expired { .. } => "expired",
            Self::Twice(_) => "twice",
            Self::Role { .. } => "role",
            Self::CrossSite { .. } => "cross_site",
            Self::Host { .. } => "host",
            Self::Rate { .. } => "rate",
        }
    }
}
