//! Callers behind a proxy, without a role, in a hurry, with deep bodies, at a shell; and what the log says of them.

use super::{ask, ask_from, bearer, status, with_tokens};
use crate::common::{self, Collector, now_ns, otlp};
use axum::http::Method;
use fabriclens_config::{Proxy, Role, Roles};
use fabriclens_server::auth::new_token;

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
async fn readiness_tells_paths_and_urls_only_to_callers_with_a_role() {
    let nobody = format!("127.0.0.1:{}", fabriclens_testing::free_port().unwrap());
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
    assert!(!stranger.contains(&nobody), "{stranger}");
    let reader = ask(c.running.http, &Method::GET, "/readyz", &known).await;
    assert!(reader.contains(&nobody), "{reader}");
}

#[tokio::test]
async fn unread_body_is_not_awaited() {
    let (c, _) = with_tokens().await;
    let announced = ("Content-Length", "1000000");
    assert_eq!(status(&ask(c.running.http, &Method::GET, "/healthz", &[announced]).await), 200);
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
