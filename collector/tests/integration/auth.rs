//! Authentication and authorization: every route for every role, tokens, trusted proxies, cross-origin requests, rate limits.

use crate::common;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::common::{Collector, now_ms, now_ns, otlp, until};
use axum::http::Method;
use fabriclens_api as api;
use fabriclens_config::{Access, Proxy, ROLES, Role, Roles};
use fabriclens_ingest as ingest;
use fabriclens_server::auth::new_token;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

/// Sends a request verbatim from an address of this machine; returns the answer up to its end or 64 KiB.
async fn ask_from(from: [u8; 4], to: SocketAddr, method: &Method, path: &str, headers: &[(&str, &str)]) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(from)), 0)).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let address = to.to_string();
    let usual = [("Host", address.as_str()), ("Connection", "close"), ("Content-Length", "0")];
    let usual = usual.iter().filter(|(name, _)| !headers.iter().any(|(other, _)| other == name));
    let headers: String = usual.chain(headers).map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!("{method} {path} HTTP/1.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 64 << 10];
    let mut length = 0;
    // The event stream has no end, so its head is enough.
    while !answer[..length].windows(4).any(|w| w == b"\r\n\r\n") || length == 0 {
        match stream.read(&mut answer[length..]).await.unwrap() {
            0 => break,
            n => length += n,
        }
    }
    let rest = tokio::time::timeout(std::time::Duration::from_millis(50), stream.read(&mut answer[length..])).await;
    length += rest.map_or(0, |n| n.unwrap_or(0));
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

async fn ask(to: SocketAddr, method: &Method, path: &str, headers: &[(&str, &str)]) -> String {
    ask_from([127, 0, 0, 1], to, method, path, headers).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {answer:?}")).parse().unwrap()
}

fn bearer(token: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {token}"))
}

/// A collector with a token for each role, named like the role, and an expired one.
async fn with_tokens() -> (Collector, BTreeMap<String, String>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    let mut tokens = BTreeMap::new();
    let mut lines = String::new();
    let mut add = |name: &str, roles: &str, expires| {
        let (token, line) = new_token(name, &roles.parse().unwrap(), None, expires).unwrap();
        tokens.insert(name.to_owned(), token);
        lines += &format!("{line}\n");
    };
    ROLES.iter().for_each(|(_, name)| add(name, name, None));
    add("late", "admin", Some(now_ms() - 1));
    std::fs::write(&file, lines).unwrap();
    (Collector::over(dir, |config| config.auth.tokens = Some(file)).await, tokens)
}

/// Every route of every listener: address, method, path, required access.
fn all(c: &Collector) -> Vec<(SocketAddr, Method, String, Access)> {
    fn rows<S>(
        at: SocketAddr,
        routes: Vec<fabriclens_server::route::Route<S>>,
    ) -> Vec<(SocketAddr, Method, String, Access)> {
        let path = |path: &str| path.replace("{id}", "x").replace("{name}", "host");
        let of = |route: &fabriclens_server::route::Route<S>| {
            route.methods.iter().map(|m| (at, m.clone(), path(route.path), route.access)).collect::<Vec<_>>()
        };
        routes.iter().flat_map(of).collect()
    }
    let r = &c.running;
    let mut all = rows(r.http, api::routes());
    all.extend(rows(r.http, ingest::http::write_routes()));
    all.extend(rows(r.http, ingest::switches::routes()));
    all.extend(rows(r.otlp_http, ingest::http::otlp_routes()));
    all.extend(rows(r.otlp_grpc, ingest::grpc::routes()));
    all
}

#[tokio::test]
async fn every_route_checks_every_role() {
    let (c, tokens) = with_tokens().await;
    // Repeated here, so that a mistake in the table or the roles shows.
    let may = |role: &str, access: Access| match role {
        "admin" => true,
        "write" => matches!(access, Access::Public | Access::Write | Access::Ingest),
        "ingest" => matches!(access, Access::Public | Access::Ingest),
        "read" => matches!(access, Access::Public | Access::Read),
        _ => access == Access::Public,
    };
    let mut asked = 0;
    for (at, method, path, access) in all(&c) {
        for role in ["admin", "write", "ingest", "read", "late", "stranger", "nobody"] {
            let token = tokens.get(role).map_or("flt_unknown", String::as_str);
            let header = bearer(token);
            let headers = [(header.0, header.1.as_str())];
            let answer = ask(at, &method, &path, if role == "nobody" { &[] } else { &headers }).await;
            let grpc = answer
                .to_ascii_lowercase()
                .split_once("grpc-status: ")
                .map(|(_, rest)| rest.split("\r\n").next().unwrap().to_owned());
            let wanted = match role {
                _ if may(role, access) => None,
                "late" | "stranger" | "nobody" => Some((401, "16")),
                _ => Some((403, "7")),
            };
            let got = (status(&answer), grpc.as_deref());
            let refused = matches!(got, (401 | 403, _) | (_, Some("16" | "7")));
            match wanted {
                None => assert!(!refused, "{role} {method} {path}: {answer}"),
                Some((http, rpc)) if at == c.running.otlp_grpc => {
                    assert_eq!(got, (200, Some(rpc)), "{role} {path} {http}")
                }
                Some((http, _)) => assert_eq!(got.0, http, "{role} {method} {path}: {answer}"),
            }
            asked += 1;
        }
    }
    assert!(asked > 300, "{asked}");
    // Routes that do more than read are listed.
    let special: Vec<String> = all(&c)
        .into_iter()
        .filter(|r| r.3 != Access::Read)
        .map(|(_, method, path, access)| format!("{access:?} {method} {path}"))
        .collect();
    assert_eq!(
        special,
        [
            "Public GET /healthz",
            "Public GET /-/healthy",
            "Public GET /readyz",
            "Public GET /-/ready",
            "Write POST /api/v1/incidents/x/acknowledge",
            "Write POST /api/v1/incidents/x/reclassify",
            "Write POST /api/v1/incidents/x/silence",
            "Write POST /api/v1/silences",
            "Write DELETE /api/v1/silences/x",
            "Write POST /api/v1/jobs",
            "Admin DELETE /api/v1/jobs",
            "Write PATCH /api/v1/jobs/x",
            "Admin DELETE /api/v1/jobs/x",
            "Write POST /api/v1/jobs/x/end",
            "Admin POST /api/v1/admin/tsdb/snapshot",
            "Admin PUT /api/v1/admin/tsdb/snapshot",
            "Ingest POST /api/v1/write",
            "Ingest POST /api/v1/import",
            "Ingest POST /v1/metrics",
            "Ingest POST /opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            "Ingest POST /fabriclens.v1.SubnetReaders/Ask",
        ]
    );
}

#[tokio::test]
async fn unknown_routes_need_authentication() {
    let (c, tokens) = with_tokens().await;
    let (name, value) = bearer(&tokens["ingest"]);
    for at in [c.running.http, c.running.otlp_http, c.running.otlp_grpc] {
        let stranger = ask(at, &Method::GET, "/etc/passwd", &[]).await;
        assert!(status(&stranger) == 401 || stranger.contains("grpc-status: 16"), "{at}: {stranger}");
        assert_eq!(status(&ask(at, &Method::GET, "/etc/passwd", &[(name, &value)]).await), 404, "{at}");
    }
}

#[tokio::test]
async fn rejection_names_the_remedy() {
    let (c, tokens) = with_tokens().await;
    let get = async |headers: &[(&str, &str)]| ask(c.running.http, &Method::GET, "/api/v1/jobs", headers).await;
    let nobody = get(&[]).await;
    assert!(nobody.contains("www-authenticate: Bearer") && nobody.contains("www-authenticate: Basic"), "{nobody}");
    assert!(nobody.contains("\"errorType\":\"denied\"") && nobody.contains("send a token"), "{nobody}");
    let (name, value) = bearer(&tokens["late"]);
    assert!(get(&[(name, &value)]).await.contains("the token late expired at 20"));
    let (name, value) = bearer(&tokens["write"]);
    assert!(
        get(&[(name, &value)])
            .await
            .contains("write has write, but the request needs read; grant the role in auth.tokens")
    );
    let basic = |password: &str| {
        use base64::Engine as _;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("me:{password}")))
    };
    assert_eq!(status(&get(&[("authorization", &basic(&tokens["read"]))]).await), 200);
    for bad in [basic("guess"), "Basic !!".to_owned(), "Basic".to_owned(), "Digest x".to_owned(), "Bearer".to_owned()] {
        assert_eq!(status(&get(&[("authorization", &bad)]).await), 401, "{bad}");
    }
}

#[tokio::test]
async fn tokens_reload_at_run_time() {
    let (c, tokens) = with_tokens().await;
    let file = c.dir.path().join("tokens");
    let get = async |token: &str| {
        let (name, value) = bearer(token);
        status(&ask(c.running.http, &Method::GET, "/api/v1/jobs", &[(name, &value)]).await)
    };
    let (new, line) = new_token("new", &"read".parse().unwrap(), None, None).unwrap();
    assert_eq!((get(&tokens["read"]).await, get(&new).await), (200, 401));
    std::fs::write(&file, "what is this").unwrap();
    c.running.reload();
    assert_eq!(get(&tokens["read"]).await, 200, "a broken file locks nobody out");
    std::fs::write(&file, line).unwrap();
    c.running.reload();
    until("the new one is known", async || get(&new).await == 200).await;
    assert_eq!(get(&tokens["read"]).await, 401, "its line is gone");
}

#[tokio::test]
async fn host_token_writes_only_as_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    let (token, line) = new_token("gpu-01", &"ingest".parse().unwrap(), Some("GPU-01"), None).unwrap();
    std::fs::write(&file, line).unwrap();
    let c = Collector::over(dir, |config| config.auth.tokens = Some(file)).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", c.running.otlp_grpc)).unwrap();
    let channel = channel.connect().await.unwrap();
    let bearer: tonic::metadata::MetadataValue<_> = format!("Bearer {token}").parse().unwrap();
    let mut client = MetricsServiceClient::with_interceptor(channel, move |mut request: tonic::Request<()>| {
        request.metadata_mut().insert("authorization", bearer.clone());
        Ok(request)
    });
    let mut send = async |host: &str| {
        let answer = client.export(otlp(host, "fabric.test", &[(1, now_ns(), 3)])).await.unwrap().into_inner();
        answer.partial_success.map_or((0, String::new()), |p| (p.rejected_data_points, p.error_message))
    };
    assert_eq!(send("gpu-01").await, (0, String::new()));
    let (rejected, message) = send("gpu-02").await;
    assert!(rejected == 1 && message.contains("\"gpu-02\"") && message.contains("gpu-01"), "{message}");
    let mut stranger = c.grpc().await;
    let refused = stranger.export(otlp("gpu-01", "fabric.test", &[(1, now_ns(), 3)])).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    assert!(refused.message().contains("send a token"), "{}", refused.message());
}

fn behind_a_proxy() -> Proxy {
    Proxy {
        networks: vec!["127.0.0.2".parse().unwrap()],
        user_header: "x-forwarded-user".parse().unwrap(),
        groups_header: Some("x-forwarded-groups".parse().unwrap()),
        roles: [("*".to_owned(), Roles::new(vec![Role::Read])), ("ops".to_owned(), "write".parse().unwrap())].into(),
    }
}

#[tokio::test]
async fn only_the_proxy_sets_identity() {
    let c = Collector::with(|config| config.auth.proxy = Some(behind_a_proxy())).await;
    let (proxy, other) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    let get = async |from, headers: &[(&str, &str)]| {
        status(&ask_from(from, c.running.http, &Method::GET, "/api/v1/jobs", headers).await)
    };
    let post = async |from, headers: &[(&str, &str)]| {
        status(&ask_from(from, c.running.http, &Method::POST, "/api/v1/incidents/x/acknowledge", headers).await)
    };
    let (ann, ops) = (("X-Forwarded-User", "ann"), ("X-Forwarded-Groups", "staff,ops"));
    assert_eq!(get(proxy, &[ann]).await, 200);
    assert_eq!((post(proxy, &[ann]).await, post(proxy, &[ann, ops]).await), (403, 404));
    assert_eq!((get(other, &[ann]).await, post(other, &[ann, ops]).await), (401, 401), "spoofed from elsewhere");
    assert_eq!(get(proxy, &[]).await, 401, "the proxy without a user");
    assert_eq!(get(proxy, &[ann, ("x-forwarded-user", "root")]).await, 401, "a header beside the proxy's");
    assert_eq!(get(other, &[("forwarded", "for=127.0.0.2"), ("x-forwarded-for", "127.0.0.2"), ann]).await, 401);
}

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
        ("/?q=up", site("cross-site", &image), 403),
        ("/api/v1/incidents/x?series=false", site("cross-site", &link), 404),
        ("/healthz", site("cross-site", &image), 200),
    ] {
        let answer = ask(c.running.http, &Method::GET, path, &headers).await;
        assert_eq!(status(&answer), wanted, "{path} {headers:?}: {answer}");
    }
}

#[tokio::test]
async fn readiness_tells_paths_and_urls_only_to_callers_with_a_role() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (dir, tokens) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let (token, line) = new_token("reader", &"read".parse().unwrap(), None, None).unwrap();
    std::fs::write(tokens.path(), line).unwrap();
    let c = Collector::over(dir, |config| {
        config.auth.tokens = Some(tokens.path().to_owned());
        config.peers = vec![common::forward(&format!("http://{nobody}")).endpoint];
    })
    .await;
    let (name, value) = bearer(&token);
    let known = [(name, value.as_str())];
    ask(c.running.http, &Method::GET, "/api/v1/query?query=up", &known).await;
    let stranger = ask(c.running.http, &Method::GET, "/readyz", &[]).await;
    assert!(status(&stranger) == 200 && stranger.contains("a source of samples did not answer\n"), "{stranger}");
    assert!(!stranger.contains(&nobody.to_string()), "{stranger}");
    let reader = ask(c.running.http, &Method::GET, "/readyz", &known).await;
    assert!(reader.contains(&nobody.to_string()), "{reader}");
}

#[tokio::test]
async fn dns_rebinding_is_rejected() {
    let evil = ("Host", "evil.example:7470");
    let origin = ("Origin", "http://evil.example:7470");
    let c = Collector::start().await;
    let health = ["/healthz", "/-/healthy", "/readyz", "/-/ready"];
    for (at, method, path, _) in all(&c) {
        let answer = ask(at, &method, &path, &[evil, origin]).await;
        let refused = if at == c.running.otlp_grpc {
            answer.to_ascii_lowercase().contains("grpc-status: 7")
        } else {
            status(&answer) == 421 && answer.contains("evil.example is not a name of this collector")
        };
        // Liveness and readiness need no authentication.
        assert_eq!(refused, !health.contains(&path.as_str()), "{method} {path}: {answer}");
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
async fn unread_body_is_not_awaited() {
    let (c, _) = with_tokens().await;
    let announced = ("Content-Length", "1000000");
    assert_eq!(status(&ask(c.running.http, &Method::GET, "/healthz", &[announced]).await), 200);
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
async fn rate_limit_applies_per_client() {
    let c = Collector::with(|config| {
        config.listen.requests = 5;
        config.auth.proxy = Some(behind_a_proxy());
    })
    .await;
    let user = async |name: &str| {
        ask_from([127, 0, 0, 2], c.running.http, &Method::GET, "/api/v1/jobs", &[("x-forwarded-user", name)]).await
    };
    let mut last = String::new();
    for _ in 0..40 {
        last = user("ann").await;
        if status(&last) == 429 {
            break;
        }
    }
    assert!(status(&last) == 429 && last.contains("retry-after: 1\r\n") && last.contains("listen.requests"), "{last}");
    assert_eq!(status(&user("bob").await), 200);
    let mut client = c.grpc().await;
    let mut refused = None;
    for _ in 0..40 {
        let status = client.export(otlp("h", "m", &[(1, now_ns(), 1)])).await.unwrap_err();
        refused = Some(status).filter(|s| s.code() == tonic::Code::ResourceExhausted);
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("a limit for who is not known");
    assert!(String::from_utf8_lossy(refused.details()).contains("google.rpc.RetryInfo"));
}

#[tokio::test]
async fn deep_and_large_bodies_are_rejected() {
    let c = Collector::start().await;
    let deep = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    let url = |path: &str| format!("http://{}{path}", c.running.http);
    let json = [("content-type", "application/json")];
    let post = async |path: &str, body: String| common::post(url(path), &json, body.into_bytes()).await;
    for body in
        [deep("[", "]", 100_000), format!("{{\"id\":{}}}", deep("[", "]", 100_000)), deep("{\"a\":", "}", 50_000)]
    {
        assert_eq!(post("/api/v1/jobs", body).await.0, 400);
    }
    let nested = deep(r#"{"arrayValue":{"values":["#, "]}}", 20_000);
    let body = format!(r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"key":"a","value":{nested}}}]}}}}]}}"#);
    assert_eq!(c.otlp_http(&json, body.into_bytes()).await.0, 400);
    for (open, close) in [("(", ")"), ("-(", ")"), ("abs(", ")"), ("sum(", ")"), ("((1)+", "1)")] {
        let query = format!("{}1{}", open.repeat(5000), close.repeat(5000));
        let (status, answer) = c.form("/api/v1/query", &[("query", &query)]).await;
        assert!(matches!(status, 400 | 422), "{open}: {answer}");
    }
    assert_eq!(post("/api/v1/jobs", " ".repeat(5 << 20)).await.0, 413);
    assert_eq!(c.get("/healthz").await.0, 200);
}

/// Runs the client against a collector.
async fn client(c: &Collector, more: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new(common::process::BIN);
    command.args(["query", "--url", &format!("http://{}", c.running.http), "1 + 1"]).args(more);
    command.env_remove("FABRICLENS_TOKEN_FILE");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn client_sends_its_token() {
    let (c, tokens) = with_tokens().await;
    let file = |name: &str| {
        let path = c.dir.path().join(name);
        std::fs::write(&path, format!("{}\n", tokens[name])).unwrap();
        path.display().to_string()
    };
    assert_eq!(client(&c, &["--token-file", &file("read")]).await, (true, "2\n".to_owned()));
    let (good, text) = client(&c, &[]).await;
    assert!(!good && text.contains("refuses: ") && text.contains("fabriclens --token-file FILE"), "{text}");
    let (good, text) = client(&c, &["--token-file", &file("ingest")]).await;
    assert!(!good && text.contains("ingest has ingest, but the request needs read"), "{text}");
    let (good, text) = client(&c, &["--token-file", "/nonexistent"]).await;
    assert!(!good && text.contains("--token-file \"/nonexistent\" is not readable"), "{text}");
}

#[test]
fn audit_log_names_users_without_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let (tokens, config) = (dir.path().join("tokens"), dir.path().join("config"));
    let make = |name: &str| {
        let (token, line) = new_token(name, &"write".parse().unwrap(), None, None).unwrap();
        let old = std::fs::read_to_string(&tokens).unwrap_or_default();
        std::fs::write(&tokens, format!("{old}{line}\n")).unwrap();
        token
    };
    let first = make("ann");
    std::fs::write(&config, format!("[auth]\ntokens = {tokens:?}\n")).unwrap();
    let server = common::process::Server::start(&dir.path().join("data"), &["--config", config.to_str().unwrap()]);
    let silence = |token: &str| {
        let request = common::process::agent().post(format!("{}/api/v1/silences", server.url));
        let request = request.header("authorization", format!("Bearer {token}"));
        request.send(r#"{"match": {"node": "h3"}, "for": "2h", "by": "somebody else"}"#).unwrap().status().as_u16()
    };
    assert_eq!(silence(&first), 200);
    let second = make("bob");
    fabriclens_testing::eventually("SIGHUP reloads the tokens", std::time::Duration::from_secs(60), || {
        common::process::kill(server.child.id(), 1);
        silence(&second) == 200
    });
    let (status, log) = server.end(15);
    assert_eq!(status, Some(0));
    let line = log.lines().find(|line| line.contains("audit")).unwrap_or_else(|| panic!("{log}"));
    for part in ["who=\"ann\"", "address=127.0.0.1", "method=POST", "path=\"/api/v1/silences\"", "status=200"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!log.contains(&first) && !log.contains(&second[4..]), "{log}");
}
