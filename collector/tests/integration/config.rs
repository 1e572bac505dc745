//! Configuration: the shipped file, errors and their hints, the environment, and the checks of open listeners.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fabriclens_config::{Config, Overrides, load};

fn from_text(text: &str) -> Result<Config, String> {
    with(text, &[], Overrides::default())
}

fn with(text: &str, env: &[(&str, &str)], flags: Overrides) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, text).unwrap();
    let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    load(Some(&path), env, &flags).map_err(|e| e.to_string())
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/config/collector.toml")
}

#[test]
fn shipped_config_holds_the_defaults() {
    let shipped = std::fs::read_to_string(shipped()).unwrap();
    let live = from_text(&shipped).unwrap();
    assert_eq!(live, Config { data: "/var/lib/fabriclens".into(), ..Config::default() });
    // The examples of other servers.
    let (shipped, servers) = shipped.split_once("# [[forward]]\n").unwrap();
    let (forward, servers) = servers.split_once("# [peers]\n").unwrap();
    let (peers, servers) = servers.split_once("# [store]\n").unwrap();
    let (store, servers) = servers.split_once("# [judge]\n").unwrap();
    let (judge, servers) = servers.split_once("# Thresholds of detectors").unwrap();
    let (thresholds, servers) = servers.split_once("# [alertmanager]\n").unwrap();
    let thresholds: Vec<&str> = thresholds.lines().skip(1).filter_map(|l| l.strip_prefix("# ")).take(3).collect();
    assert_ne!(from_text(&thresholds.join("\n")).unwrap().thresholds, Config::default().thresholds);
    let (alertmanager, webhook) = servers.split_once("# [[webhook]]\n").unwrap();
    let (webhook, owners) = webhook.split_once("# [[job_notification]]\n").unwrap();
    let (owners, switch) = owners.split_once("# [[gnmi.targets]]\n").unwrap();

    let mut section = String::new();
    let mut shown = BTreeMap::new();
    for line in shipped.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
        }
        let assignment = line.trim_start_matches("# ").split_once(" = ");
        if let Some((key, _)) = assignment.filter(|(k, _)| !k.contains(' ')) {
            shown.insert(format!("{section}{key}"), line);
        }
    }
    // Uncommented keys must change nothing, except examples without a default.
    let examples = [
        "size",
        "squeue",
        "hosts",
        "certificates",
        "proxy",
        "addresses",
        "raw",
        "memory = \"4GiB\"",
        "traffic_class",
        "service_level",
    ];
    let all: String = shipped
        .lines()
        .map(|l| match l.strip_prefix("# ") {
            Some(l) if l.contains(" = ") && !l.contains("/etc/") && !examples.iter().any(|e| l.starts_with(e)) => {
                format!("{l}\n")
            }
            _ => format!("{l}\n"),
        })
        .collect();
    assert_eq!(from_text(&all).unwrap(), live);
    let switches = ["addresses", "raw"].map(|key| shown.remove(&format!("switches.{key}")).unwrap());
    let told = from_text(&format!("[switches]\n{}", switches.join("\n").replace("# ", ""))).unwrap().switches;
    assert_eq!((told.addresses.len(), told.raw.len()), (1, 1));
    let tables = ["slurmrestd", "kubernetes", "hosts"].map(|key| shown.remove(&format!("jobs.{key}")).unwrap());
    let told = from_text(&format!("[jobs]\n{}", tables.join("\n").replace("# ", ""))).unwrap().jobs;
    assert!(told.slurmrestd.is_some() && told.kubernetes.is_some() && told.hosts.len() == 1);
    let tables = ["certificates", "proxy"].map(|key| shown.remove(&format!("auth.{key}")).unwrap());
    let tls = "[tls]\ncert = 'c'\nkey = 'k'\nclient_ca = 'a'\n";
    let told = from_text(&format!("{tls}[auth]\n{}", tables.join("\n").replace("# ", ""))).unwrap().auth;
    assert!(told.proxy.is_some() && told.certificates.len() == 2);
    let files = from_text(&format!("[topology]\n{}", shown.remove("topology.files").unwrap().replace("# ", "")));
    assert_eq!(files.unwrap().topology.len(), 2);
    let files = from_text(&format!("[audit]\n{}", shown.remove("audit.baselines").unwrap().replace("# ", "")));
    assert_eq!(files.unwrap().baselines.len(), 1);
    assert_eq!(shown.len(), live.shown().len(), "every key is shown in the file: {shown:?}");

    let keys = |text: &str, number: usize| {
        let all: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("# ").filter(|l| l.contains(" = "))).collect();
        assert_eq!(all.len(), number, "every key of them too");
        all.iter().filter(|l| !l.starts_with("bearer")).map(|l| format!("{l}\n")).collect::<String>()
    };
    let one = keys(forward, 14);
    let one = from_text(&format!("[[forward]]\n{one}")).unwrap().forward.remove(0);
    let short = from_text("[[forward]]\nname = 'central'\nurl = 'https://mimir.example/api/v1/push'").unwrap();
    let mut short = short.forward[0].clone();
    let timeout = short.endpoint.timeout;
    short.select = one.select.clone();
    short.endpoint = fabriclens_config::Endpoint { timeout, ..one.endpoint.clone() };
    assert_eq!(one, short, "what has a default shows it");

    let one = from_text(&format!("[peers]\n{}", keys(peers, 7))).unwrap().peers;
    let short = from_text("[peers]\nurls = ['http://x']").unwrap().peers;
    assert_eq!((one[0].timeout, one[0].url.as_str()), (short[0].timeout, "https://collector-2.example:7470"));
    let wrong = from_text("[peers]\nurls = ['http://x', 'http://x/']").unwrap_err().to_string();
    assert!(wrong.starts_with("peers.urls: ") && wrong.contains("occurs twice"), "{wrong}");

    let one = from_text(&format!("[store]\n{}", keys(store, 12))).unwrap().store.unwrap();
    let short = from_text("store = { remote = 'http://127.0.0.1:8428/' }").unwrap().store.unwrap();
    assert_eq!((&short.read.url, &short.write.endpoint.url), (&one.read.url, &one.write.endpoint.url));
    assert_eq!((one.write.size, one.write.batch, one.write.parallel), (4 << 30, 10_000, 1));
    assert_eq!((short.write.size, short.write.batch, short.write.parallel), (4 << 30, 10_000, 1));
    assert_eq!((one.read.timeout, short.read.timeout), (Duration::from_secs(30), Duration::from_secs(30)));

    let roles = "role = 'judge'\nstore = { remote = 'http://x' }\n";
    let one = from_text(&format!("{roles}[judge]\n{}", keys(judge, 12))).unwrap().judge;
    let short = from_text(&format!("{roles}[judge]\nurls = ['http://x']")).unwrap().judge;
    assert_eq!((one.size, one.age, one.batch), (short.size, short.age, short.batch));
    assert_eq!((one.endpoints[1].timeout, one.name.as_str()), (short.endpoints[0].timeout, "judge-1"));

    let one = from_text(&format!("[alertmanager]\n{}", keys(alertmanager, 8))).unwrap().alertmanager;
    let short = from_text("[alertmanager]\nurls = ['http://x']").unwrap().alertmanager;
    assert_eq!((one.endpoints.len(), one.endpoints[1].timeout), (2, short.endpoints[0].timeout));
    let one = from_text(&format!("[[webhook]]\n{}", keys(webhook, 9))).unwrap().webhook.remove(0);
    let short = from_text("[[webhook]]\nname = 'x'\nurl = 'http://x'").unwrap().webhook.remove(0);
    assert_eq!((one.repeat, one.endpoint.timeout), (short.repeat, short.endpoint.timeout));
    let one: String =
        keys(owners, 13).lines().filter(|l| !l.starts_with("program")).map(|l| format!("{l}\n")).collect();
    let one = from_text(&format!("[[job_notification]]\n{one}")).unwrap().job_notification.remove(0);
    let short = from_text("[[job_notification]]\nname = 'x'\nurl = 'http://x'").unwrap().job_notification.remove(0);
    assert_eq!((one.only_lost, one.min_run_time, one.delay), (short.only_lost, short.min_run_time, short.delay));
    let one = from_text(&format!("[[gnmi.targets]]\n{}", keys(switch, 11))).unwrap().gnmi.remove(0);
    let short = from_text("[[gnmi.targets]]\nname = 'x'\naddress = 'x:1'\nkind = 'sonic'").unwrap().gnmi.remove(0);
    assert_eq!((one.interval, one.tls.is_some()), (short.interval, short.tls.is_some()));
}

#[test]
fn remote_engine_keys_are_checked() {
    for (text, error) in [
        ("store = { remotes = 'http://x' }", "unknown key \"store.remotes\"; did you mean \"store.remote\"?"),
        ("store = { remote = 'x' }", "store.remote: \"x/api/v1/write\" is not an http:// or https:// URL"),
        ("store = { remote = 'http://x', write = 'y' }", "store.remote: \"y\" is not an http"),
        ("store = { remote = 'http://x', size = '1' }", "store.size: at least 16MiB"),
        ("store = { remote = 'http://x', username = 'u' }", "store.password_file: missing"),
        ("store = { size = '1GiB' }", "store.remote: missing"),
    ] {
        let got = from_text(text).unwrap_err();
        assert!(got.contains(error), "{text}: {got}");
    }
}

#[test]
fn forward_tables_are_checked() {
    let two = "[[forward]]\nname = 'a'\nurl = 'http://x/w'\n[[forward]]\nname = 'b'\nurl = 'https://y:1/w'\n";
    assert_eq!(from_text(two).unwrap().forward.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let with = |line: &str| from_text(&format!("[[forward]]\nname = 'a'\nurl = 'http://x/w'\n{line}")).unwrap_err();
    for (line, error) in [
        ("matches = ['up']", "unknown key \"forward.matches\"; did you mean \"forward.match\"?"),
        ("match = ['up{']", "forward.match: \"up{\": "),
        ("match = ['{}']", "must contain at least one non-empty matcher"),
        ("username = 'x'", "forward.password_file: missing"),
        ("username = 'x'\npassword_file = 'f'\nbearer_token_file = 'g'", "set one of the two"),
        ("headers = { 'a b' = 'c' }", "forward.headers: \"a b\" is not an HTTP header"),
        ("headers = { Authorization = 'c' }", "may be set here"),
        ("batch = 0", "forward.batch: from 1 to"),
        ("parallel = 65", "forward.parallel: from 1 to 64"),
        ("protobuf_message = 'v2'", "forward.protobuf_message: \"v2\" is unknown; use one of prometheus.WriteRequest"),
        ("size = '1MiB'", "forward.size: at least 16MiB"),
        ("age = '1'", "forward.age: \"1\" is not a duration"),
        ("timeout = '0s'", "forward.timeout: longer than 0s"),
        ("[[forward]]\nname = 'a'\nurl = 'http://y/w'", "forward.name: \"a\" occurs twice"),
        ("[[forward]]\nname = '../a'\nurl = 'http://y/w'", "forward.name: \"../a\" is not a valid name"),
        ("[[forward]]\nname = 'b'", "forward.url: missing in \"b\""),
        ("[[forward]]\nname = 'b'\nurl = 'x:9/w'", "forward.url: \"x:9/w\" is not an http:// or https:// URL"),
        ("[[forward]]\nname = 'b'\nurl = 'http://u:p@x/w'", "use username and password_file"),
    ] {
        let got = with(line);
        assert!(got.contains(error), "{line}: {got}");
    }
}

#[test]
fn notification_keys_are_checked() {
    let good = "external_url = 'https://fabric.example/'\n[alertmanager]\nurls = ['http://a:9093/', 'https://b']\n\
        labels = { cluster = 'west' }\n[[webhook]]\nname = 'tickets'\nurl = 'https://t/x'\nrepeat = '4h'\n";
    let config = from_text(good).unwrap();
    assert_eq!(config.external_url.as_deref(), Some("https://fabric.example"));
    assert_eq!(
        config.alertmanager.endpoints.iter().map(|e| e.url.as_str()).collect::<Vec<_>>(),
        ["http://a:9093", "https://b"]
    );
    assert_eq!((config.webhook[0].name.as_str(), config.webhook[0].repeat.as_secs()), ("tickets", 4 * 3600));
    for (text, error) in [
        ("external_url = 'fabric'", "external_url: \"fabric\" is not an http:// or https:// URL"),
        ("[alertmanager]\nurl = 'http://a'", "unknown key \"alertmanager.url\"; did you mean \"alertmanager.urls\"?"),
        ("[alertmanager]\nurls = ['a:9093']", "alertmanager.urls: \"a:9093\" is not an http://"),
        ("[alertmanager]\nlabels = { a = 'b' }", "alertmanager.urls: missing"),
        ("[alertmanager]\nurls = ['http://a', 'http://a/']", "alertmanager.urls: \"http://a/\" occurs twice"),
        ("[alertmanager]\nurls = ['http://a']\nlabels = { 'a-b' = 'c' }", "alertmanager.labels: \"a-b\""),
        ("[[webhook]]\nurl = 'http://x'", "webhook.name: \"\" is not a valid name"),
        ("[[webhook]]\nname = 'x'", "webhook.url: missing in \"x\""),
        ("[[webhook]]\nname = 'x'\nurl = 'x'", "webhook.url: \"x\" is not an http://"),
        ("[[webhook]]\nname = 'x'\nurl = 'http://x'\nusername = 'u'", "webhook.password_file: missing"),
        ("[[webhook]]\nname = 'x'\nurl = 'http://x'\nrepeat = '5s'", "webhook.repeat: at least 1m"),
        ("[[webhook]]\nname = 'x'\nurl = 'http://x'\ntimeuot = '5s'", "did you mean \"webhook.timeout\"?"),
        ("[webhook]\nname = 'x'", "expected a sequence"),
        ("[[job_notification]]\nname = 'x'", "job_notification.url: missing in \"x\"; set url or program"),
        (
            "[[job_notification]]\nname = 'x'\nurl = 'http://x'\nprogram = '/p'",
            "job_notification.url: \"x\" has a program too",
        ),
        (
            "[[job_notification]]\nname = 'x'\nurl = 'http://{user}/'",
            "job_notification.url: variables are allowed in path",
        ),
        (
            "[[job_notification]]\nname = 'x'\nurl = 'http://x/{usr}'",
            "job_notification.url: unknown variable {usr}; did you mean {user}?",
        ),
        (
            "[[job_notification]]\nname = 'x'\nurl = 'http://x'\ntemplate = '{costs}'",
            "job_notification.template: unknown variable {costs}; did you mean {cost}?",
        ),
        (
            "[[job_notification]]\nname = 'x'\nprogram = 'mail'",
            "job_notification.program: mail is not an absolute path",
        ),
        (
            "[[job_notification]]\nname = 'x'\nprogram = '/p'\nca = 'c'",
            "job_notification.program: \"x\" is a program; credentials",
        ),
        (
            "[[job_notification]]\nname = 'x'\nprogram = '/p'\nonly = 'bad'",
            "job_notification.only: \"bad\" is neither all nor lost",
        ),
        (
            "[[job_notification]]\nname = 'x'\nprogram = '/p'\ntimeout = '1h'",
            "job_notification.timeout: longer than 0s, and at most 10m",
        ),
        ("[[job_notification]]\nname = 'x'\nprogramm = '/p'", "did you mean \"job_notification.program\"?"),
    ] {
        let got = from_text(text).unwrap_err();
        assert!(got.contains(error), "{text}: {got}");
    }
}

#[test]
fn errors_name_the_nearest_key() {
    for (text, key, hint) in [
        ("dta = 'x'", "dta", "data"),
        ("[listen]\nhttpp = 'x'", "listen.httpp", "listen.http"),
        ("otlp_grpc = 'x'", "otlp_grpc", "listen.otlp_grpc"),
        ("[lisen]\nhttp = 'x'", "lisen", "listen"),
    ] {
        let error = from_text(text).unwrap_err();
        assert!(error.contains(&format!("unknown key {key:?}; did you mean {hint:?}?")), "{error}");
    }
    let error = from_text("colour = 'x'").unwrap_err();
    assert!(error.ends_with("unknown key \"colour\""), "{error}");
    let error = from_text("insecure = 'yes'").unwrap_err();
    assert!(error.contains("line 1") && error.contains("boolean"), "{error}");
    let error = from_text("[retention]\nage = '30 days'").unwrap_err();
    assert!(error.starts_with("retention.age: \"30 days\" is not a duration"), "{error}");
    let error = from_text("[listen]\nhttp = '7470'").unwrap_err();
    assert!(error.contains("write for instance 127.0.0.1:7470"), "{error}");
    let missing = load(Some(Path::new("/nonexistent/c.toml")), [], &Overrides::default()).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read config /nonexistent/c.toml"), "{missing}");
}

#[test]
fn flags_beat_environment_beats_file() {
    let file = "[listen]\nhttp = '127.0.0.1:1'\notlp_grpc = '127.0.0.1:1'\notlp_http = '127.0.0.1:1'";
    let env = [("FABRICLENS_LISTEN_HTTP", "127.0.0.1:2"), ("FABRICLENS_LISTEN_OTLP_GRPC", "127.0.0.1:2")];
    let flags = Overrides { http: Some("localhost:3".to_owned()), ..Overrides::default() };
    let listen = with(file, &env, flags).unwrap().listen;
    assert_eq!((listen.http.port(), listen.otlp_grpc.port(), listen.otlp_http.port()), (3, 2, 1));

    let env = [("FABRICLENS_INSECURE", "maybe")];
    let error = with("", &env, Overrides::default()).unwrap_err();
    assert_eq!(error, "FABRICLENS_INSECURE: \"maybe\" is neither true nor false");
    let forever = Overrides { retention: Some("100y".to_owned()), ..Overrides::default() };
    assert_eq!(with("", &[], forever).unwrap().retention.age, Duration::from_secs(100 * 365 * 86_400));
}

#[test]
fn open_listener_needs_tls_or_consent() {
    let open = "listen = { http = '0.0.0.0:7470' }\n";
    let error = from_text(open).unwrap_err();
    assert!(error.starts_with("listen.http = 0.0.0.0:7470 is not a loopback address"), "{error}");
    assert!(error.contains("tls.cert") && error.contains("insecure = true"), "{error}");
    assert!(from_text(&format!("insecure = true\n{open}")).unwrap().insecure);
    assert!(from_text(&format!("{open}tls = {{ cert = 'a', key = 'b' }}")).unwrap().tls.is_some());
    let error = from_text("tls = { cert = 'a' }").unwrap_err();
    assert!(error.starts_with("tls.key: missing"), "{error}");
}

#[test]
fn auth_keys_are_checked() {
    for (text, error) in [
        ("[auth]\ntoken = 'x'", "unknown key \"auth.token\"; did you mean \"auth.tokens\"?"),
        ("[auth.certificates]\nx = 'read'", "auth.certificates: needs tls.client_ca"),
        ("[auth]\nhost_id = 'host/x'", "auth.host_id: \"host/x\": write for instance spiffe://"),
        ("[auth.proxy]\nuser_header = 'x'\nroles = { '*' = 'read' }", "auth.proxy: networks is missing"),
        ("[auth.proxy]\nnetworks = ['10.0.0.0/40']\nuser_header = 'x'\nroles = { '*' = 'read' }", "is not a network"),
        ("[auth.proxy]\nnetworks = ['::1']\nroles = { '*' = 'read' }", "auth.proxy: user_header is missing"),
        ("[auth.proxy]\nnetworks = ['::1']\nuser_header = 'a b'\nroles = { '*' = 'read' }", "is not a header name"),
        ("[auth.proxy]\nnetworks = ['::1']\nuser_header = 'x'", "auth.proxy: roles is empty"),
        (
            "[auth.proxy]\nnetworks = ['::1']\nuser_header = 'x'\nroles = { 'a' = 'root' }",
            "\"a\": \"root\" is not a role",
        ),
    ] {
        let got = from_text(text).unwrap_err();
        assert!(got.contains(error), "{text}: {got}");
    }
    let plain = from_text("").unwrap();
    assert!(!plain.requires_authentication());
    assert!(from_text("[auth]\ntokens = 't'").unwrap().requires_authentication());
    let tls = from_text("[tls]\ncert = 'c'\nkey = 'k'\nclient_ca = 'a'\n[auth.certificates]\n'OPS.example' = 'admin'")
        .unwrap();
    assert!(tls.requires_authentication() && tls.certificates_only());
    assert_eq!(tls.auth.certificates.keys().collect::<Vec<_>>(), ["ops.example"]);
}

#[test]
fn world_readable_secrets_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let [secret, file] = ["secret", "collector.toml"].map(|name| dir.path().join(name));
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let loaded = |text: &str| {
        std::fs::write(&file, text).unwrap();
        mode(&file, 0o644);
        load(Some(&file), [], &Overrides::default()).map(drop).map_err(|e| e.to_string())
    };
    std::fs::write(&secret, "x").unwrap();
    let path = secret.display();
    for (key, text) in [
        ("tls.key", format!("[tls]\ncert = \"c\"\nkey = \"{path}\"")),
        (
            "forward.bearer_token_file",
            format!("[[forward]]\nname = \"f\"\nurl = \"https://x/w\"\nbearer_token_file = \"{path}\""),
        ),
        (
            "webhook.password_file",
            format!("[[webhook]]\nname = \"w\"\nurl = \"https://x\"\nusername = \"u\"\npassword_file = \"{path}\""),
        ),
    ] {
        mode(&secret, 0o604);
        let said = loaded(&text).unwrap_err();
        assert!(said.contains(key) && said.contains(&format!("chmod o-rwx {path}")), "{said}");
        mode(&secret, 0o640);
        assert_eq!(loaded(&text), Ok(()));
    }
    let header = |name: &str| format!("[[webhook]]\nname = \"w\"\nurl = \"https://x\"\nheaders = {{ {name} = \"y\" }}");
    assert_eq!(loaded(&header("X-Scope-OrgID")), Ok(()));
    let said = loaded(&header("X-Api-Key")).unwrap_err();
    assert!(said.contains("webhook.headers.X-Api-Key") && said.contains("collector.toml"), "{said}");
}
