//! Authentication and authorization: every route for every role, and tokens.

mod browsers;
mod callers;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::common::{Collector, now_ms, now_ns, otlp, until};
use axum::http::Method;
use fabriclens_api as api;
use fabriclens_config::{Access, ROLES, ServeRole};
use fabriclens_console as console;
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

/// A path that a pattern of a route matches.
fn concrete(pattern: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    pattern.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Every route of every listener: address, method, path, required access.
fn all(c: &Collector) -> Vec<(SocketAddr, Method, String, Access)> {
    fn rows<S>(
        at: SocketAddr,
        routes: Vec<fabriclens_server::route::Route<S>>,
    ) -> Vec<(SocketAddr, Method, String, Access)> {
        let of = |route: &fabriclens_server::route::Route<S>| {
            route.methods.iter().map(|m| (at, m.clone(), concrete(route.path), route.access)).collect::<Vec<_>>()
        };
        routes.iter().flat_map(of).collect()
    }
    let r = &c.running;
    let mut all = rows(r.http, api::routes(ServeRole::All));
    all.extend(rows(r.http, console::routes::<()>("/")));
    all.extend(rows(r.http, ingest::http::write_routes()));
    all.extend(rows(r.http, ingest::switches::routes()));
    all.extend(rows(r.otlp_http, ingest::http::otlp_routes(ServeRole::All)));
    all.extend(rows(r.otlp_grpc, ingest::grpc::routes(ServeRole::All)));
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
    // The files of the console hold no data, so everybody may load them.
    let pages: Vec<String> = console::routes::<()>("/").iter().map(|route| route.path.to_owned()).collect();
    let is_page = |row: &(SocketAddr, Method, String, Access)| {
        row.3 == Access::Public && pages.iter().any(|path| row.2 == concrete(path))
    };
    // Routes that do more than read are listed.
    let special: Vec<String> = all(&c)
        .into_iter()
        .filter(|r| r.3 != Access::Read && !is_page(r))
        .map(|(_, method, path, access)| format!("{access:?} {method} {path}"))
        .collect();
    assert_eq!(
        special,
        [
            "Public GET /api/v1/session",
            "Public GET /healthz",
            "Public GET /-/healthy",
            "Public GET /readyz",
            "Public GET /-/ready",
            "Write POST /api/v1/incidents/x/acknowledge",
            "Write POST /api/v1/incidents/x/note",
            "Write POST /api/v1/incidents/x/reclassify",
            "Write POST /api/v1/incidents/x/silence",
            "Write POST /api/v1/silences",
            "Write DELETE /api/v1/silences/x",
            "Write POST /api/v1/jobs",
            "Admin DELETE /api/v1/jobs",
            "Write PATCH /api/v1/jobs/x",
            "Admin DELETE /api/v1/jobs/x",
            "Write POST /api/v1/jobs/x/end",
            "Admin DELETE /api/v1/metadata",
            "Admin POST /api/v1/admin/tsdb/snapshot",
            "Admin PUT /api/v1/admin/tsdb/snapshot",
            "Ingest POST /api/v1/write",
            "Ingest POST /api/v1/import",
            "Ingest POST /v1/metrics",
            "Ingest POST /opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            "Ingest POST /fabriclens.v1.SubnetReaders/Ask",
            "Ingest POST /fabriclens.v1.Probes/Plan",
            "Ingest POST /fabriclens.v1.Probes/Report",
            "Ingest POST /fabriclens.v1.ForwardingTables/Tell",
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
