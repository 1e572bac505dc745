//! Tables of routes. A route is one row: the access that it requires, its methods, its path, its handler. [`router`] makes the
//! router of a table and puts the authorization in front of each handler, so no handler runs without a decision on access.
//!
//! The access also decides how the body of a request is treated:
//!
//! | access | body |
//! |---|---|
//! | `Public`, `AnyRole` | ignored |
//! | `Read`, `Write`, `Admin` | read before the handler runs, at most 4 MiB, within a quota for each client |
//! | `Ingest` | left to the handler, which reads it by priority class within the quota of ingest |

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn_with_state, map_response};
use axum::routing::{MethodFilter, MethodRouter, any, on};
use fabriclens_config::Access;

use crate::auth::{ErrorFormat, Gate, Guard, authorize};
use crate::security_headers::set_security_headers;

/// One row of a table of routes.
pub struct Route<S> {
    /// Access that callers need.
    pub access: Access,
    /// HTTP methods.
    pub methods: &'static [Method],
    /// Path in the syntax of axum.
    pub path: &'static str,
    /// Whether pages of other sites may link to it.
    linked: bool,
    to: MethodRouter<S>,
}

impl<S> Route<S> {
    /// Lets people follow links from other sites to this page; a page of another site can then make a browser open it.
    #[must_use]
    pub fn linked(self) -> Self {
        Self { linked: true, ..self }
    }
}

/// Creates a row.
pub fn route<H, T, S>(access: Access, methods: &'static [Method], path: &'static str, handler: H) -> Route<S>
where
    H: Handler<T, S>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    let filters = methods.iter().filter_map(|method| MethodFilter::try_from(method.clone()).ok());
    let to = filters.reduce(MethodFilter::or).map_or_else(MethodRouter::new, |filter| on(filter, handler));
    Route { access, methods, path, linked: false, to }
}

/// Builds a router from a table. Unknown paths are 404 until [`fallback`] sets a handler.
pub fn router<S>(routes: Vec<Route<S>>, format: ErrorFormat, guard: &Arc<Guard>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    routes.into_iter().fold(Router::new(), |router, route| {
        let gate = Gate { guard: guard.clone(), access: route.access, linked: route.linked, format };
        router.route(route.path, route.to.route_layer(from_fn_with_state(gate, authorize)))
    })
}

/// Adds the handler of unknown paths, for callers with any role, and the security headers of all answers.
pub fn fallback<H, T>(router: Router, handler: H, format: ErrorFormat, guard: &Arc<Guard>) -> Router
where
    H: Handler<T, ()>,
    T: 'static,
{
    let gate = Gate { guard: guard.clone(), access: Access::AnyRole, linked: true, format };
    router
        .fallback_service(any(handler).layer(from_fn_with_state(gate, authorize)))
        .layer(map_response(set_security_headers))
}
