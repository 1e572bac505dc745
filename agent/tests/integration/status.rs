//! `fabriclens-agent status` queries the running agent.

use crate::support::agent::{Agent, command};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/mlx5-roce");

/// A config with a port that is free now.
fn config(dir: &Path, more: &str) -> u16 {
    let port = fabriclens_testing::free_port().unwrap();
    fs::write(dir.join("agent.toml"), format!("[http]\nlisten = \"127.0.0.1:{port}\"\n{more}")).unwrap();
    port
}

fn start(dir: &Path) -> Agent {
    let mut run = command();
    run.args(["run", "--root", HOST]).env("FABRICLENS_AGENT_CONFIG", dir.join("agent.toml"));
    Agent(run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Exit status, and both outputs.
fn status(dir: &Path, args: &[&str]) -> (i32, String) {
    let mut ask = command();
    ask.arg("status").args(args).env("FABRICLENS_AGENT_CONFIG", dir.join("agent.toml"));
    let done = ask.output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn until(dir: &Path, so: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let (code, text) = status(dir, &[]);
        if code == 0 && so(&text) {
            return text;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{code}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn status_needs_a_running_agent() {
    let dir = tempfile::tempdir().unwrap();
    let port = config(dir.path(), "[collector]\nurl = \"http://127.0.0.1:9\"\n");
    let (code, text) = status(dir.path(), &[]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains(&format!("asking the agent at 127.0.0.1:{port}")) && text.contains("refused"), "{text}");
    let running = start(dir.path());
    let text = until(dir.path(), |text| text.contains("collector"));
    assert!(text.starts_with("degraded; ") && text.contains("sources give data"), "{text}");
    let (code, json) = status(dir.path(), &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["status"]), (0, &"degraded".into()));
    drop(running);

    config(dir.path(), "enabled = false\n");
    assert!(status(dir.path(), &[]).1.contains("http.enabled = false"));
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    fs::write(dir.path().join("agent.toml"), format!("[http]\nlisten = \"{address}\"\n")).unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = other.accept().unwrap();
        _ = stream.read(&mut [0; 1024]).unwrap();
        stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap();
    });
    let (code, text) = status(dir.path(), &[]);
    assert!(code == 2 && text.contains("404 Not Found"), "{text}");
}

#[test]
fn status_checks_the_agents_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        // An agent's certificate names its host, not the loopback address.
        let made = rcgen::generate_simple_self_signed(["gpu-01.example".to_owned()]).unwrap();
        fs::write(dir.path().join(format!("{name}.pem")), made.cert.pem()).unwrap();
        fs::write(dir.path().join(format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(dir.path().join(format!("{name}.key")), fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("own");
    write("other");
    let files = |name: &str| {
        let path = |end: &str| dir.path().join(format!("{name}.{end}")).display().to_string();
        format!("cert = \"{}\"\nkey = \"{}\"\n", path("pem"), path("key"))
    };
    let port = config(dir.path(), &files("own"));
    let _running = start(dir.path());
    until(dir.path(), |text| text.starts_with("ok; "));
    let text = format!("[http]\nlisten = \"127.0.0.1:{port}\"\n");
    fs::write(dir.path().join("agent.toml"), format!("{text}{}", files("other"))).unwrap();
    let (code, said) = status(dir.path(), &[]);
    assert!(code == 2 && said.contains("another certificate"), "{said}");
    fs::write(dir.path().join("agent.toml"), &text).unwrap();
    assert_eq!(status(dir.path(), &[]).0, 2, "nor plain text");
    // The running agent shows the replaced certificate.
    for end in ["key", "pem"] {
        let path = |name: &str| dir.path().join(format!("{name}.{end}"));
        fs::rename(path("other"), path("own")).unwrap();
    }
    fs::write(dir.path().join("agent.toml"), format!("{text}{}", files("own"))).unwrap();
    until(dir.path(), |text| text.starts_with("ok; "));
}
