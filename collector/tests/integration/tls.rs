//! TLS: server and client certificates, reloads, and errors of mismatched files.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Collector, forward, now_ms, now_ns, otlp, series, until};
use fabriclens_config::{Config, Tls};
use fabriclens_core::prompb::WriteRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::metrics::v1::metric;
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use ureq::tls::{RootCerts, TlsConfig};

/// A certificate authority in a directory.
struct Ca {
    dir: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca = Self { dir: tempfile::tempdir().unwrap(), issuer };
        std::fs::write(ca.path("ca.crt"), ca.issuer.pem()).unwrap();
        ca
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Certificate and key of a server on this machine, as files `<name>.crt` and `<name>.key`.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        self.sign(name, CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap())
    }

    /// Client certificate with these names: DNS names, and URIs if they have a colon.
    fn identity(&self, names: &[&str]) -> Identity {
        let (cert, key) = self.identity_pem(names);
        Identity::from_pem(cert, key)
    }

    fn identity_pem(&self, names: &[&str]) -> (String, String) {
        let san = |name: &&str| match name.contains(':') {
            true => SanType::URI((*name).try_into().unwrap()),
            false => SanType::DnsName((*name).try_into().unwrap()),
        };
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.iter().map(san).collect();
        let (cert, key) = self.sign("client", params);
        (std::fs::read_to_string(cert).unwrap(), std::fs::read_to_string(key).unwrap())
    }

    fn sign(&self, name: &str, params: CertificateParams) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let paths = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }
}

/// A client that trusts only this authority.
fn trusting(pem: &str) -> ureq::Agent {
    let roots = RootCerts::new_with_certs(&[ureq::tls::Certificate::from_pem(pem.as_bytes()).unwrap()]);
    let tls = TlsConfig::builder().root_certs(roots).build();
    ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent()
}

#[tokio::test]
async fn certificates_limit_host_names() {
    let ca = Ca::new();
    let (cert, key) = ca.issue("server");
    let c = Collector::with(|config| {
        config.tls = Some(Tls { cert, key, client_ca: Some(ca.path("ca.crt")) });
        let roles = [("otel.example", "ingest"), ("spiffe://td/grafana", "read"), ("gpu-09.example", "read")];
        config.auth.certificates = roles.iter().map(|(n, r)| ((*n).to_owned(), r.parse().unwrap())).collect();
    })
    .await;
    let send = async |names: &[&str], request: ExportMetricsServiceRequest| {
        let mut client = connect(&c, &ca, Some(ca.identity(names))).await.unwrap();
        let answer = client.export(request).await.map_err(|status| status.message().to_owned())?.into_inner();
        Ok::<_, String>(answer.partial_success.map(|partial| partial.error_message).unwrap_or_default())
    };
    let point = |host: &str| otlp(host, "fabric.test", &[(1, now_ns(), 3)]);
    let all_taken = Ok(String::new());
    assert_eq!(send(&["gpu-01.example"], point("gpu-01")).await, all_taken);
    assert_eq!(send(&["gpu-01.example"], point("gpu-01.example")).await, all_taken);
    assert_eq!(send(&["spiffe://td/host/gpu-02"], point("gpu-02")).await, all_taken);
    assert_eq!(send(&["gpu-09.example"], point("gpu-09")).await, all_taken, "may read, and is a host all the same");
    assert_eq!(send(&["otel.example"], point("gpu-03")).await, all_taken);
    let other = send(&["gpu-01.example"], point("gpu-02")).await.unwrap();
    assert!(other.starts_with("1 points rejected") && other.contains("gpu-01.example may write only as"), "{other}");
    assert!(other.contains("\"gpu-02\""), "{other}");
    assert!(send(&["gpu-09.example"], point("gpu-01")).await.unwrap().contains("rejected"));
    // A point's own attribute decides the label.
    let mut hidden = point("gpu-01");
    let metric = &mut hidden.resource_metrics[0].scope_metrics[0].metrics[0];
    let Some(metric::Data::Sum(sum)) = &mut metric.data else { panic!("no sum") };
    sum.data_points[0].attributes =
        point("gpu-02").resource_metrics[0].resource.as_ref().unwrap().attributes[..1].to_vec();
    assert!(send(&["gpu-01.example"], hidden).await.unwrap().contains("\"gpu-02\""));
    let mut nameless = point("gpu-01");
    nameless.resource_metrics[0].resource = None;
    assert!(send(&["gpu-01.example"], nameless).await.unwrap().contains("label host"));
    // A certificate that may only query, and one without a host name.
    for names in [&["spiffe://td/grafana"], &["spiffe://td/ns/x/sa/y"]] {
        let refused = send(names, point("grafana")).await.unwrap_err();
        assert!(refused.contains(names[0]) && refused.contains("auth.certificates"), "{refused}");
    }
    // The same over HTTP; a host may not query.
    let client = |names: &[&str]| {
        let (cert, key) = ca.identity_pem(names);
        let certificate = ureq::tls::Certificate::from_pem(cert.as_bytes()).unwrap();
        let key = ureq::tls::PrivateKey::from_pem(key.as_bytes()).unwrap();
        let roots = RootCerts::new_with_certs(&[ureq::tls::Certificate::from_pem(ca.issuer.pem().as_bytes()).unwrap()]);
        let shown = ureq::tls::ClientCert::new_with_certs(&[certificate], key);
        let tls = TlsConfig::builder().root_certs(roots).client_cert(Some(shown)).build();
        ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent()
    };
    let base = format!("https://localhost:{}", c.running.http.port());
    let body = WriteRequest {
        timeseries: vec![series(&[("__name__", "m"), ("host", "gpu-02")], &[(now_ms(), 1.0)])],
        metadata: vec![],
    };
    let body = snap::raw::Encoder::new().compress_vec(&body.encode_to_vec()).unwrap();
    let write = |names: &[&str]| {
        let (agent, url, body) = (client(names), format!("{base}/api/v1/write"), body.clone());
        tokio::task::spawn_blocking(move || {
            let mut answer = agent.post(url).header("content-encoding", "snappy").send(&body[..]).unwrap();
            (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
        })
    };
    let (status, text) = write(&["gpu-01"]).await.unwrap();
    assert!(status == 400 && text.contains("gpu-01 may write only as gpu-01"), "{status} {text}");
    assert_eq!(write(&["gpu-02"]).await.unwrap().0, 204);
    let ask = |names: &[&str]| {
        let (agent, url) = (client(names), format!("{base}/api/v1/query?query=m"));
        tokio::task::spawn_blocking(move || agent.get(url).call().unwrap().status().as_u16())
    };
    assert_eq!((ask(&["gpu-01"]).await.unwrap(), ask(&["spiffe://td/grafana"]).await.unwrap()), (403, 200));
    let told = |metric: &str| {
        let (agent, url, metric) = (client(&["spiffe://td/grafana"]), format!("{base}/metrics"), metric.to_owned());
        tokio::task::spawn_blocking(move || {
            agent.get(url).call().unwrap().body_mut().read_to_string().unwrap().contains(&metric)
        })
    };
    assert!(told("fabriclens_ingest_rejected_total{reason=\"host\",source=\"otlp_grpc\"} 4\n").await.unwrap());
    assert!(
        !told("fabriclens_ingest_host_conflicts_total{").await.unwrap(),
        "what is said in another's name is no conflict"
    );
}

/// Current certificate of the main listener.
async fn shown(c: &Collector, ca: &Ca) -> Vec<u8> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.issuer.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(c.running.http).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

async fn connect(c: &Collector, ca: &Ca, identity: Option<Identity>) -> Result<MetricsServiceClient<Channel>, String> {
    let pem = std::fs::read(ca.path("ca.crt")).unwrap();
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)).domain_name("localhost");
    if let Some(identity) = identity {
        tls = tls.identity(identity);
    }
    let url = format!("https://{}", c.running.otlp_grpc);
    let channel = Channel::from_shared(url).unwrap().tls_config(tls).unwrap().connect().await;
    channel.map(MetricsServiceClient::new).map_err(|e| format!("{e:?}"))
}

#[tokio::test]
async fn client_certificate_is_required() {
    let (ca, stranger) = (Ca::new(), Ca::new());
    let (cert, key) = ca.issue("server");
    let c = Collector::with(|config| {
        config.tls = Some(Tls { cert, key, client_ca: Some(ca.path("ca.crt")) });
    })
    .await;
    let identity = |ca: &Ca| Some(ca.identity(&["h"]));
    let request = || otlp("h", "fabric.test", &[(1, now_ns(), 3)]);
    let mut known = connect(&c, &ca, identity(&ca)).await.unwrap();
    assert_eq!(known.export(request()).await.unwrap().into_inner().partial_success, None);
    let mut expired = CertificateParams::new(vec!["h".to_owned()]).unwrap();
    (expired.not_before, expired.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    let (cert, key) = ca.sign("expired", expired);
    let expired = Identity::from_pem(std::fs::read(cert).unwrap(), std::fs::read(key).unwrap());
    for other in [None, identity(&stranger), Some(expired)] {
        // With TLS 1.3 the client notices the rejection only when it sends a request.
        let refused = match connect(&c, &ca, other).await {
            Err(_) => true,
            Ok(mut client) => client.export(request()).await.is_err(),
        };
        assert!(refused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_client_is_disconnected() {
    let (ca, other) = (Ca::new(), Ca::new());
    let (cert, key) = ca.issue("server");
    let clients = ca.path("clients.crt");
    std::fs::write(&clients, ca.issuer.pem() + &other.issuer.pem()).unwrap();
    let tls = Tls { cert, key, client_ca: Some(clients.clone()) };
    let c = Collector::with(|config| config.tls = Some(tls)).await;
    let mut gone = connect(&c, &ca, Some(ca.identity(&["gpu-01"]))).await.unwrap();
    let mut kept = connect(&c, &ca, Some(other.identity(&["gpu-02"]))).await.unwrap();
    let point = |host| otlp(host, "fabric.test", &[(1, now_ns(), 3)]);
    gone.export(point("gpu-01")).await.unwrap();
    std::fs::write(&clients, other.issuer.pem()).unwrap();
    c.running.reload();
    let began = std::time::Instant::now();
    while gone.export(point("gpu-01")).await.is_ok() {
        assert!(began.elapsed().as_secs() < 20, "it writes on");
        kept.export(point("gpu-02")).await.unwrap();
    }
    kept.export(point("gpu-02")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_reload_drops_no_request() {
    let ca = Ca::new();
    let (cert, key) = ca.issue("server");
    let tls = Tls { cert: cert.clone(), key: key.clone(), client_ca: None };
    let c = Collector::with(|config| config.tls = Some(tls)).await;
    let told = async |metric: &str| {
        let (url, agent) = (format!("https://localhost:{}/metrics", c.running.http.port()), trusting(&ca.issuer.pem()));
        let text =
            tokio::task::spawn_blocking(move || agent.get(url).call().unwrap().body_mut().read_to_string().unwrap());
        let text = text.await.unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix(metric)).unwrap_or_else(|| panic!("no {metric}: {text}"));
        line.trim().parse::<f64>().unwrap()
    };
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let load: Vec<_> = (0..3)
        .map(|_| {
            let (stop, pem) = (stop.clone(), ca.issuer.pem());
            let url = format!("https://localhost:{}/healthz", c.running.http.port());
            std::thread::spawn(move || {
                let mut good = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    // A connection for each request, and with it a handshake.
                    let agent = trusting(&pem);
                    assert_eq!(agent.get(&url).call().expect("a request failed").status(), 200);
                    good += 1;
                }
                good
            })
        })
        .collect();
    for turn in 0..3 {
        let before = shown(&c, &ca).await;
        // The certificate and its key change one after the other, and mismatch in between.
        let (new_cert, new_key) = ca.issue("next");
        std::fs::rename(new_cert, &cert).unwrap();
        c.running.reload();
        until("the failure is told", async || told("fabriclens_reload_failing{what=\"tls\"}").await == 1.0).await;
        assert_eq!(shown(&c, &ca).await, before, "the old one stays in force");
        std::fs::rename(new_key, &key).unwrap();
        c.running.reload();
        until("the new one is shown", async || shown(&c, &ca).await != before).await;
        assert_eq!(told("fabriclens_reloads_total{result=\"ok\",what=\"tls\"}").await, f64::from(turn + 1));
    }
    let expiry = told("fabriclens_tls_certificate_expiry_timestamp_seconds").await;
    assert!(expiry > now_ms() as f64 / 1000.0, "{expiry}");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let good: Vec<u32> = load.into_iter().map(|t| t.join().expect("no request fails")).collect();
    assert!(good.iter().all(|n| *n > 3), "{good:?}");
}

#[tokio::test]
async fn client_verifies_the_server() {
    let ca = Ca::new();
    let (cert, key) = ca.issue("server");
    let c = Collector::with(|config| config.tls = Some(Tls { cert, key, client_ca: None })).await;
    let url = format!("https://localhost:{}", c.running.http.port());
    let ask = |ca: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabriclens"));
        command.args(["query", "--url", &url, "1 + 1"]);
        if let Some(ca) = ca {
            command.arg("--ca").arg(ca);
        }
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let output = ask(Some(&ca.path("ca.crt"))).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(ask(None).await.unwrap().status.code(), Some(1), "an unknown authority");
    let output = ask(Some(Path::new("/dev/null"))).await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("no PEM file with a certificate"));
}

#[tokio::test]
async fn client_sends_its_certificate() {
    let ca = Ca::new();
    let (cert, key) = ca.issue("server");
    let c = Collector::with(|config| {
        config.tls = Some(Tls { cert, key, client_ca: Some(ca.path("ca.crt")) });
        config.auth.certificates = [("ann".to_owned(), "read".parse().unwrap())].into();
    })
    .await;
    let url = format!("https://localhost:{}", c.running.http.port());
    let (ann, key) = ca.identity_pem(&["ann"]);
    std::fs::write(ca.path("ann.crt"), ann).unwrap();
    std::fs::write(ca.path("ann.key"), key).unwrap();
    let ask = |more: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fabriclens"));
        command.args(["query", "--url", &url, "1 + 1", "--ca"]).arg(ca.path("ca.crt"));
        more.iter().for_each(|(flag, file)| _ = command.arg(flag).arg(ca.path(file)));
        async {
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            let text = [output.stdout, output.stderr].concat();
            (output.status.code().unwrap(), String::from_utf8(text).unwrap())
        }
    };
    assert_eq!(ask(&[("--cert", "ann.crt"), ("--key", "ann.key")]).await, (0, "2\n".to_owned()));
    let (code, text) = ask(&[]).await;
    assert!(code == 1 && text.contains("does it require a client certificate?"), "{text}");
    let (code, text) = ask(&[("--cert", "ann.crt"), ("--key", "ca.crt")]).await;
    assert!(code == 1 && text.contains("--key") && text.contains("no PEM file with a private key"), "{text}");
    assert_eq!(ask(&[("--cert", "ann.crt")]).await.0, 2, "a certificate without a key");
}

#[tokio::test]
async fn mismatched_key_files_are_named() {
    let ca = Ca::new();
    let (cert, key) = ca.issue("server");
    let start = |tls: Tls| async {
        let mut config = Config { tls: Some(tls), data: ca.path("data"), ..Config::default() };
        config.listen.http.set_port(0);
        fabriclens::serve::start(config).await.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let text = start(Tls { cert: ca.path("none.crt"), key: key.clone(), client_ca: None }).await;
    assert!(text.starts_with("tls.cert ") && text.contains("none.crt") && text.contains("PEM"), "{text}");
    let text = start(Tls { cert: key.clone(), key: key.clone(), client_ca: None }).await;
    assert!(text.contains("holds no certificate"), "{text}");
    let text = start(Tls { cert: cert.clone(), key: cert.clone(), client_ca: None }).await;
    assert!(text.starts_with("tls.key "), "{text}");
    let (_, other) = ca.issue("other");
    let text = start(Tls { cert, key: other, client_ca: None }).await;
    assert!(text.starts_with("tls.key "), "a key of another certificate: {text}");
    assert!(!ca.path("data").exists(), "nothing was begun");
}

#[tokio::test]
async fn forwarding_verifies_the_target() {
    let ca = Ca::new();
    let (cert, key) = ca.issue("server");
    let far = Collector::with(|config| config.tls = Some(Tls { cert, key, client_ca: None })).await;
    let mut target = forward(&format!("https://localhost:{}/api/v1/write", far.running.http.port()));
    // An untrusted target gets nothing, and the samples wait, because trust can change.
    let near = Collector::with(|c| c.forward = vec![target.clone()]).await;
    let at = now_ms();
    near.remote_write(vec![series(&[("__name__", "m")], &[(at, 1.0)])]).await;
    let failed = "fabriclens_forward_failed_total{queue=\"far\"} 2\n";
    until("forwarding is retried", async || near.get("/metrics").await.1.contains(failed)).await;
    let Collector { running, dir } = near;
    running.stop().await;
    target.endpoint.ca = Some(ca.path("ca.crt"));
    let near = Collector::over(dir, |c| c.forward = vec![target.clone()]).await;
    let pending = "fabriclens_forward_pending_samples{queue=\"far\"} 0\n";
    until("everything is forwarded", async || near.get("/metrics").await.1.contains(pending)).await;
    let stats = far.running.stop();
    stats.await;
    let far = Collector::over(far.dir, |_| {}).await;
    assert_eq!(far.value("m").await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn target_ca_reload_sends_the_backlog() {
    let (old, new) = (Ca::new(), Ca::new());
    let serve = |ca: &Ca| {
        let (cert, key) = ca.issue("server");
        Some(Tls { cert, key, client_ca: None })
    };
    let far = Collector::with(|config| config.tls = serve(&old)).await;
    let port = far.running.http.port();
    let mut target = forward(&format!("https://localhost:{port}/api/v1/write"));
    let trusted = old.path("trusted.crt");
    std::fs::write(&trusted, old.issuer.pem()).unwrap();
    target.endpoint.ca = Some(trusted.clone());
    let near = Collector::with(|c| c.forward = vec![target]).await;
    let told = async |metric: &str| {
        let (_, text) = near.get("/metrics").await;
        let value = text.lines().find_map(|l| l.strip_prefix(metric)?.trim().parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {metric}"))
    };
    let pending = "fabriclens_forward_pending_samples{queue=\"far\"}";
    let failed = "fabriclens_forward_failed_total{queue=\"far\"}";
    let write = async |value: f64| near.remote_write(vec![series(&[("__name__", "m")], &[(now_ms(), value)])]).await;
    write(1.0).await;
    until("it is sent", async || told(pending).await == 0.0).await;
    // The authority changes: first at the target, then here, where the file is bad for a while.
    far.running.stop().await;
    let far = Collector::over(far.dir, |config| {
        config.tls = serve(&new);
        config.listen.http.set_port(port);
    })
    .await;
    write(2.0).await;
    until("it is not trusted", async || told(failed).await >= 1.0).await;
    std::fs::write(&trusted, "nothing of the kind").unwrap();
    until("that is told", async || told("fabriclens_reload_failing{what=\"server_ca\"}").await == 1.0).await;
    assert_eq!(told(pending).await, 1.0);
    std::fs::write(&trusted, new.issuer.pem()).unwrap();
    until("it is sent to whom it trusts now", async || told(pending).await == 0.0).await;
    assert_eq!(told("fabriclens_reload_failing{what=\"server_ca\"}").await, 0.0);
    // A target that is no longer trusted gets nothing more, even over an existing connection.
    let before = told(failed).await;
    std::fs::write(&trusted, old.issuer.pem()).unwrap();
    write(3.0).await;
    until("it is left", async || told(failed).await > before).await;
    assert_eq!(told(pending).await, 1.0);
    far.running.stop().await;
    let far = Collector::over(far.dir, |_| {}).await;
    assert_eq!(far.value("m").await, Some(2.0));
}
