//! Origin of the page that made a browser send a request (protection against cross-site requests).

use axum::http::{HeaderMap, Uri, header};
use fabriclens_base::host_check;

/// Origin (scheme and authority) of a URL, as browsers write it.
pub(super) fn origin_of(url: &str) -> String {
    url.parse::<Uri>().ok().and_then(|u| Some(format!("{}://{}", u.scheme_str()?, u.authority()?))).unwrap_or_default()
}

/// Origin of the page that made a browser send the request, unless it is this collector's own. Other clients send no
/// origin.
fn foreign_origin(headers: &HeaderMap, uri: &Uri, own: Option<&str>) -> Option<String> {
    let origin = String::from_utf8_lossy(headers.get(header::ORIGIN)?.as_bytes()).into_owned();
    let host = host_check::requested_authority(headers, uri).unwrap_or_default();
    let same = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(&host));
    (!same && own.is_none_or(|own| !own.eq_ignore_ascii_case(&origin))).then_some(origin)
}

/// The page of another site from which a browser sent the request, if any: by its origin, or by the browser's word for
/// what has none, such as images. People may follow links to routes that are `linked`.
pub(super) fn foreign_page(headers: &HeaderMap, uri: &Uri, own: Option<&str>, linked: bool) -> Option<String> {
    let word = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let site = word("sec-fetch-site").filter(|site| matches!(*site, "cross-site" | "same-site"));
    let followed = linked && word("sec-fetch-mode") == Some("navigate") && word("sec-fetch-dest") == Some("document");
    foreign_origin(headers, uri, own).or_else(|| match headers.contains_key(header::ORIGIN) {
        true => None,
        false => site.filter(|_| !followed).map(|site| format!("another site ({site})")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

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
        let page = |pairs: &[(&'static str, &'static str)], linked| {
            let pairs = pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v)));
            foreign_page(&HeaderMap::from_iter(pairs), &Uri::from_static("/x"), None, linked).is_some()
        };
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert!(!page(&link, true) && page(&link, false), "links lead to pages only");
        for (site, foreign) in [("cross-site", true), ("same-site", true), ("same-origin", false), ("none", false)] {
            let image = [("sec-fetch-site", site), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
            assert_eq!((page(&image, true), page(&image, false)), (foreign, foreign), "{site}");
        }
        let frame = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert!(page(&frame, true), "no frames");
        let form = [("origin", "https://evil.example"), link[0], link[1], link[2]];
        assert!(page(&form, true), "a form of another site names its origin");
        assert_eq!(origin_of("https://fabric.example:8443/path"), "https://fabric.example:8443");
    }
}
