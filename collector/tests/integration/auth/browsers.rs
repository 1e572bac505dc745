//! Pages of other sites, and names that they point at this machine.

use super::{all, ask, bearer, status, with_tokens};
use crate::common::Collector;
use axum::http::Method;
use fabriclens_config::Access;
use std::net::{Ipv4Addr, SocketAddr};

#[tokio::test]
async fn cross_origin_requests_are_denied() {
    let c = Collector::start().await;
    let at = c.running.http;
    let own = format!("http://{at}");
    for (origin, wanted) in
        [(own.as_str(), 404), ("https://evil.example", 403), ("null", 403), ("http://127.0.0.1", 403)]
    {
        let answer = ask(at, &Method::POST, "/api/v1/incidents/x/acknowledge", &[("Origin", origin)]).await;
        assert_eq!(status(&answer), wanted, "{origin}: {answer}");
    }
    let evil = [("Origin", "https://evil.example")];
    for (at, path) in
        [(at, "/api/v1/admin/tsdb/snapshot"), (at, "/api/v1/import"), (c.running.otlp_http, "/v1/metrics")]
    {
        assert_eq!(status(&ask(at, &Method::POST, path, &evil).await), 403, "{path}");
    }
    let c = Collector::with(|config| config.external_url = Some("https://fabric.example/x".to_owned())).await;
    let answer =
        ask(c.running.http, &Method::POST, "/api/v1/incidents/x/acknowledge", &[("Origin", "https://fabric.example")])
            .await;
    assert_eq!(status(&answer), 404, "through a proxy that has another name: {answer}");
    // Reads cost time and memory, even if the browser withholds the answer.
    for method in [Method::OPTIONS, Method::GET] {
        let headers = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
        let answer = ask(c.running.http, &method, "/api/v1/query?query=1", &headers).await.to_ascii_lowercase();
        let refused = if method == Method::GET { 403 } else { 405 };
        assert!(status(&answer) == refused && !answer.contains("access-control-"), "{answer}");
    }
    let (link, image) =
        ([("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")], [("Sec-Fetch-Dest", "image")]);
    let site = |site, more: &[(&'static str, &'static str)]| [&[("Sec-Fetch-Site", site)], more].concat();
    for (path, headers, wanted) in [
        ("/api/v1/query?query=1", site("cross-site", &image), 403),
        ("/api/v1/query?query=1", site("cross-site", &link), 403),
        ("/api/v1/query?query=1", site("same-site", &image), 403),
        ("/api/v1/query?query=1", site("same-origin", &[]), 200),
        ("/api/v1/query?query=1", site("none", &link), 200),
        ("/?q=up", site("cross-site", &link), 200),
        ("/?q=up", site("cross-site", &image), 200),
        ("/api/v1/incidents/x?series=false", site("cross-site", &link), 404),
        ("/healthz", site("cross-site", &image), 200),
    ] {
        let answer = ask(c.running.http, &Method::GET, path, &headers).await;
        assert_eq!(status(&answer), wanted, "{path} {headers:?}: {answer}");
    }
}

#[tokio::test]
async fn dns_rebinding_is_rejected() {
    let evil = ("Host", "evil.example:7470");
    let origin = ("Origin", "http://evil.example:7470");
    let c = Collector::start().await;
    for (at, method, path, access) in all(&c) {
        let answer = ask(at, &method, &path, &[evil, origin]).await;
        let refused = if at == c.running.otlp_grpc {
            answer.to_ascii_lowercase().contains("grpc-status: 7")
        } else {
            status(&answer) == 421 && answer.contains("evil.example is not a name of this collector")
        };
        // Liveness, readiness and the files of the console hold no data.
        assert_eq!(refused, access != Access::Public, "{method} {path}: {answer}");
    }
    let own = format!("localhost:{}", c.running.http.port());
    assert_eq!(status(&ask(c.running.http, &Method::GET, "/api/v1/jobs", &[("Host", &own)]).await), 200);
    // The host name is not checked for authenticated requests, nor on listeners that are meant to be reached by name.
    let (known, tokens) = with_tokens().await;
    let (name, value) = bearer(&tokens["read"]);
    let answer = ask(known.running.http, &Method::GET, "/api/v1/jobs", &[evil, (name, &value)]).await;
    assert_eq!(status(&answer), 200, "{answer}");
    let open = Collector::with(|config| {
        config.insecure = true;
        config.listen.http.set_ip(Ipv4Addr::UNSPECIFIED.into());
    })
    .await;
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), open.running.http.port());
    let answer = ask(at, &Method::GET, "/api/v1/jobs", &[("Host", "collector:7470")]).await;
    assert_eq!(status(&answer), 200, "{answer}");
}

#[tokio::test]
async fn answers_carry_security_headers() {
    let c = Collector::start().await;
    for (at, method, path, _) in all(&c).into_iter().filter(|r| r.0 != c.running.otlp_grpc) {
        let answer = ask(at, &method, &path, &[]).await.to_ascii_lowercase();
        for header in [
            "content-security-policy: default-src 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert_eq!(answer.matches(header).count(), 1, "{method} {path}: {header}: {answer}");
        }
    }
    let answer = ask(c.running.http, &Method::GET, "/healthz", &[]).await;
    assert!(!answer.contains(env!("CARGO_PKG_VERSION")), "{answer}");
}

#[tokio::test]
async fn scripts_are_told_who_they_are_and_are_asked_for_no_password() {
    let (c, tokens) = with_tokens().await;
    let at = c.running.http;
    let session = async |token: Option<&str>| {
        let header = token.map(bearer);
        let headers: Vec<(&str, &str)> = header.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = ask(at, &Method::GET, "/api/v1/session", &headers).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        (body["data"]["caller"].clone(), body["data"]["may"].clone())
    };
    let json = |value: &str| serde_json::from_str::<serde_json::Value>(value).unwrap();
    assert_eq!(session(None).await, (json("null"), json("[]")));
    assert_eq!(session(Some("flt_unknown")).await, (json("null"), json("[]")), "an unknown token is nobody's");
    assert_eq!(session(Some(&tokens["read"])).await, (json("\"read\""), json("[\"read\"]")));
    assert_eq!(session(Some(&tokens["ingest"])).await.1, json("[]"), "senders may read nothing");
    assert_eq!(session(Some(&tokens["admin"])).await.1, json("[\"read\",\"write\",\"admin\"]"));
    // The console asks for a token itself; a page that is opened has no script yet.
    for (dest, asks) in [("empty", false), ("document", true)] {
        let answer = ask(at, &Method::GET, "/api/v1/overview", &[("Sec-Fetch-Dest", dest)]).await.to_ascii_lowercase();
        assert_eq!(status(&answer), 401);
        assert!(answer.contains("www-authenticate: bearer"), "{answer}");
        assert_eq!(answer.contains("www-authenticate: basic"), asks, "{dest}: {answer}");
    }
}
