//! The console: the pages of `console/`, built by `cargo xtask console` and embedded here. Every page is one HTML file and its
//! scripts, which read the HTTP API; a page needs no role, its data do.
//!
//! ```
//! use fabriclens_config::Access;
//!
//! let routes = fabriclens_console::routes::<()>("/");
//! assert!(routes.iter().all(|route| route.access == Access::Public));
//! assert!(routes.iter().any(|route| route.path == "/incidents/{id}"));
//! ```

#![forbid(unsafe_code)]

mod docs;
mod file;
#[path = "../../../console/dist/files.rs"]
mod files;

use axum::extract::Path;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use fabriclens_config::Access::Public;
use fabriclens_server::route::{Route, route};

use file::Caching;

/// Paths that the page answers; `console/src/pages.ts` shows the page of each.
const PAGES: [&str; 15] = [
    "/",
    "/incidents",
    "/incidents/{id}",
    "/jobs",
    "/jobs/{id}",
    "/jobs/{cluster}/{id}",
    "/compare",
    "/fabric",
    "/ports",
    "/ports/{node}/{*port}",
    "/hosts/{node}",
    "/audit",
    "/explore",
    "/status",
    "/docs/{*page}",
];
const GET: &[Method] = &[Method::GET];

/// The routes of the console. `base` is the path under which browsers reach the collector, with a slash at its end: `/`, or the path
/// of `external_url`.
pub fn routes<S: Clone + Send + Sync + 'static>(base: &str) -> Vec<Route<S>> {
    let page = page_below(base);
    let of_page = |path| {
        let page = page.clone();
        route(Public, GET, path, move |headers: HeaderMap| async move { answer_page(&page, &headers) })
    };
    let mut routes: Vec<Route<S>> = PAGES.into_iter().map(of_page).collect();
    routes.push(route(Public, GET, "/assets/{file}", asset));
    routes.push(route(Public, GET, "/assets/docs/{*page}", doc));
    routes
}

/// The path that browsers see in front of the console's paths: that of `external_url`, with a slash at its end.
pub fn base_path(external_url: Option<&str>) -> String {
    let path = external_url.and_then(|url| url.parse::<axum::http::Uri>().ok()).map(|url| url.path().to_owned());
    let path = path.unwrap_or_default();
    // What could end the attribute of the page is not a path that a proxy would have.
    let is_plain = path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.~%".contains(&b));
    if is_plain { format!("{}/", path.trim_end_matches('/')) } else { "/".to_owned() }
}

/// The page, with links that begin at `base`.
fn page_below(base: &str) -> String {
    files::PAGE.replacen("<base href=\"/\">", &format!("<base href=\"{base}\">"), 1)
}

fn answer_page(page: &str, headers: &HeaderMap) -> Response {
    file::answer(
        headers,
        "text/html; charset=utf-8",
        Caching::Revalidate(files::PAGE_ETAG),
        page.to_owned().into_bytes().into(),
    )
}

/// A script, style or image; its name has a hash of its content.
async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match files::ASSETS.iter().find(|file| file.name == name) {
        Some(file) => file.answer(&headers),
        None => (StatusCode::NOT_FOUND, "no such file of the console; reload the page\n").into_response(),
    }
}

/// A page of the documentation, as Markdown.
async fn doc(Path(page): Path<String>, headers: HeaderMap) -> Response {
    match docs::find(&page) {
        Some(doc) => file::answer(&headers, "text/plain; charset=utf-8", Caching::Ask, doc.text.as_bytes().into()),
        None => (StatusCode::NOT_FOUND, "no such page of the documentation; runbooks/README.md lists runbooks\n")
            .into_response(),
    }
}

#[cfg(test)]
mod tests;
