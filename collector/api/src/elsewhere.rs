//! The API of an ingest collector: its health, metrics and status. For everything else it names the judge.

use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use fabriclens_config::Judge;
use fabriclens_server::error::{ApiError, Kind};

/// Paths that an ingest collector answers itself.
const OWN: &[&str] = &[
    "/metrics",
    "/healthz",
    "/-/healthy",
    "/readyz",
    "/-/ready",
    "/api/v1/status/buildinfo",
    "/api/v1/status/config",
    "/api/v1/status/flags",
    "/api/v1/status/runtimeinfo",
];

/// Whether an ingest collector answers this path.
pub(super) fn is_of_ingest(path: &str) -> bool {
    OWN.contains(&path)
}

/// Handler of all other paths: 421 with the URLs of the judge.
pub fn elsewhere(judge: &Judge) -> impl Fn(Uri) -> std::future::Ready<Response> + Clone + Send + Sync + 'static {
    let urls: Vec<&str> = judge.endpoints.iter().map(|endpoint| endpoint.url.as_str()).collect();
    let urls = urls.join(" or ");
    move |uri| {
        let path = uri.path();
        let text = format!(
            "this collector only takes samples (role = \"ingest\") and has no {path}; queries, incidents, jobs, reports and the console are at the judge: {urls}"
        );
        let mut response = ApiError::new(Kind::NotFound, text).into_response();
        *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
        std::future::ready(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_own_path_is_a_route() {
        let routes = crate::all_routes();
        assert!(OWN.iter().all(|path| routes.iter().any(|route| route.path == *path)));
        assert_eq!(crate::routes(fabriclens_config::ServeRole::Ingest).len(), OWN.len());
    }
}
