//! Origin of the page that made a browser send a request (protection against cross-site requests).

use axum::http::{HeaderMap, Uri, header};
use fabriclens_base::host_check;

/// Origin (scheme and authority) of a URL, as browsers write it.
pub(super) fn origin_of(url: &str) -> String {
    url.parse::<Uri>().ok().and_then(|u| Some(format!("{}://{}", u.scheme_str()?, u.authority()?))).unwrap_or_default()
}

/// Origin of the page that made a browser send the request, unless it is this collector's own. Other clients send no
/// origin.
pub(super) fn foreign_origin(headers: &HeaderMap, uri: &Uri, own: Option<&str>) -> Option<String> {
    let origin = String::from_utf8_lossy(headers.get(header::ORIGIN)?.as_bytes()).into_owned();
    let host = host_check::requested_authority(headers, uri).unwrap_or_default();
    let same = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(&host));
    (!same && own.is_none_or(|own| !own.eq_ignore_ascii_case(&origin))).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn foreign_origins_are_detected() {
        let origin = |origin: &str, host: &str| {
            let headers = HeaderMap::from_iter([
                (header::ORIGIN, HeaderValue::from_str(origin).unwrap()),
                (header::HOST, HeaderValue::from_str(host).unwrap()),
            ]);
            foreign_origin(&headers, &Uri::from_static("/x"), Some("https://fabric.example")).is_some()
        };
        assert!(!origin("http://127.0.0.1:7470", "127.0.0.1:7470"));
        assert!(!origin("https://fabric.example", "127.0.0.1:7470"), "the origin of external_url is accepted");
        for other in ["http://127.0.0.1:7471", "https://evil.example", "null", "", "://127.0.0.1:7470x"] {
            assert!(origin(other, "127.0.0.1:7470"), "{other}");
        }
        assert!(
            foreign_origin(&HeaderMap::new(), &Uri::from_static("/x"), None).is_none(),
            "other clients send no origin"
        );
        assert_eq!(origin_of("https://fabric.example:8443/path"), "https://fabric.example:8443");
    }
}
