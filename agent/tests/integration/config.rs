//! The agent's config: the shipped file is valid and complete, errors name the remedy, flags override the environment and
//! the environment overrides the file.

use fabriclens_agent::config::raw::KEYS;
use fabriclens_agent::config::{Config, ConfigError, Overrides, load};
use fabriclens_agent_uplink::config::Compression;
use std::path::Path;
use std::time::Duration;

const SAMPLERS: &[&str] = &["rdma", "ethtool"];
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/agent.toml");

fn from(text: &str, env: &[(&str, &str)], flags: &Overrides) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("agent.toml");
    std::fs::write(&path, text).expect("written");
    let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    load(Some(&path), env, flags, SAMPLERS)
}

fn error(text: &str) -> String {
    from(text, &[], &Overrides::default()).expect_err(text).to_string()
}

#[test]
fn shipped_config_holds_every_default() {
    let shipped = load(Some(Path::new(SHIPPED)), [], &Overrides::default(), SAMPLERS).unwrap();
    let here = Overrides { collector: Some("http://127.0.0.1:4317".into()), ..Overrides::default() };
    let none = load(None, [], &here, SAMPLERS).unwrap();
    assert_eq!(format!("{shipped:?}"), format!("{none:?}"));

    let text = std::fs::read_to_string(SHIPPED).unwrap();
    let mut section = String::new();
    let mut seen = Vec::new();
    for line in text.lines().map(|l| l.trim_start_matches("# ")) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some((key, _)) = line.split_once(" = ") {
            seen.push(format!("{section}{key}"));
        }
    }
    for (key, _) in KEYS {
        assert!(seen.iter().any(|s| s == key), "{key} is missing in {SHIPPED}");
    }
}

#[test]
fn flags_beat_environment_beats_file() {
    let file =
        "host = \"file\"\n[collector]\nurl = \"http://127.0.0.1:1\"\ncompression = \"gzip\"\n[samplers]\nrdma = false";
    let env = [
        ("FABRICLENS_AGENT_HOST", "env"),
        ("FABRICLENS_AGENT_COLLECTOR_URL", "http://127.0.0.1:2"),
        ("FABRICLENS_AGENT_SAMPLING_EXCLUDE_DEVICES", "mlx5_9, eth*"),
        ("FABRICLENS_AGENT_SAMPLING_FULL", "2s"),
        ("FABRICLENS_AGENT_CONFIG", "a flag"),
        ("FABRICLENS_LISTEN_HTTP", "of the collector"),
    ];
    let flags = Overrides { collector: Some("http://[::1]:3".into()), ..Overrides::default() };
    let c = from(file, &env, &flags).unwrap();
    let collector = c.collector.unwrap();
    assert_eq!((&*c.settings.host, &*collector.url), ("env", "http://[::1]:3"));
    assert_eq!(collector.compression, Compression::Gzip);
    assert_eq!(c.settings.exclude_devices, ["mlx5_9", "eth*"]);
    assert_eq!(c.settings.full, Duration::from_secs(2));
    assert_eq!(c.settings.samplers.get("rdma"), Some(&false));
}

#[test]
fn errors_suggest_the_nearest_key() {
    assert!(error("hots = \"a\"").contains("did you mean \"host\""));
    assert!(error("[colector]\nurl = \"\"").contains("did you mean \"collector\""));
    assert!(error("[collector]\ncompresion = \"zstd\"").contains("\"collector.compression\""));
    assert!(error("url = \"\"").contains("\"collector.url\""));
    assert!(error("[samplers]\nrmda = true").contains("did you mean \"rdma\""));
    let wrong_type = error("[sampling]\nring_sections = \"many\"");
    assert!(wrong_type.contains("line 2") && wrong_type.contains("agent.toml"), "{wrong_type}");
    let typo = [("FABRICLENS_AGENT_COLECTOR_URL", "x")];
    let message = from("", &typo, &Overrides::default()).unwrap_err().to_string();
    assert!(message.contains("did you mean \"FABRICLENS_AGENT_COLLECTOR_URL\""), "{message}");
}

#[test]
fn out_of_range_values_are_rejected() {
    for (text, says) in [
        ("sandbox = \"maybe\"", "on or off"),
        ("[budget]\ncpu = \"2\"", "for example 2%"),
        ("[budget]\ncpu = \"0%\"", "from 0.1%"),
        ("[budget]\nmemory = \"1MiB\"", "at least 16MiB"),
        ("[sampling]\nfull = \"1ms\"", "sampling.full"),
        ("[sampling]\nfast = \"2s\"", "not longer than sampling.full"),
        ("[sampling]\nring_sections = 1", "from 64"),
        ("[microburst]\nshare = 0", "more than 0"),
        ("[microburst]\ndumps = 1000", "at most 256"),
        ("[microburst]\nbytes = \"many\"", "microburst.bytes"),
        ("[microburst]\nnetdevs = [\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"]", "more than 8"),
        ("[rails]\nmlx5_0 = \"a\\nb\"", "on one line"),
        ("[probes]\ntrace_packets_per_second = 0", "from 1 to 1000"),
        ("[probes]\nprobes_per_second = 100000", "from 1 to 1000"),
        ("[probes]\ntcp_port = 22", "from 1024"),
        ("[probes]\nnetworks = [\"10.0.0.1\"]", "such as 10.1.0.0/16"),
        ("[probes]\nenabled = true\ntrace = false\nrdma = false\ntcp = false", "probes.enabled = false"),
        ("[collector]\ncompression = \"lz4\"", "zstd, gzip or none"),
        ("[collector]\nurl = \"collector:4317\"", "http://127.0.0.1:4317"),
        ("[collector]\nurl = \"http://localhost\"", "http://127.0.0.1:4317"),
        ("[collector]\nurl = \"https://ann:secret@host:4317\"", "holds credentials"),
        ("[collector]\nurls = [\"http://127.0.0.1:1\", \"ann:secret@host\"]", "holds credentials"),
        ("[collector]\nurl = \"http://localhost:1\"\nca = \"x\"", "https://"),
        ("[http]\nlisten = \"7471\"", "127.0.0.1:7471"),
        ("[http]\ncert = \"x\"", "http.key"),
    ] {
        assert!(error(text).contains(says), "{text}: {}", error(text));
        assert!(!error(text).contains("secret"), "{}", error(text));
    }
    let e = from("[sampling]\nfull = \"fast\"", &[], &Overrides::default()).unwrap_err();
    let source = std::error::Error::source(&e).unwrap().to_string();
    assert!(e.to_string() == "sampling.full" && source.contains("500ms"), "{e}: {source}");
}

#[test]
fn nothing_is_sent_unless_probes_are_enabled() {
    let probing = |text| from(text, &[], &Overrides::default()).unwrap().settings.probing;
    assert!(probing("").is_none() && probing("[probes]\ntrace = true").is_none());
    let on = probing("[probes]\nenabled = true\nrdma = false").expect("it is on");
    assert!(on.trace && !on.rdma && on.tcp);
}

#[test]
fn documented_quantities_parse() {
    let text = "[sampling]\nfull = \"1.5s\"\n[spool]\nsize = \"1GB\"\nage = \"1h30m\"";
    let loaded = from(text, &[], &Overrides::default());
    assert!(loaded.is_ok(), "{:?}", loaded.err());
}

#[test]
fn rails_are_set_by_device() {
    let settings = from("[rails]\nmlx5_0 = \"0\"\n\"mlx5.7\" = \"blue\"", &[], &Overrides::default()).unwrap().settings;
    let rail = |device: &str| settings.rails.of(device).map(|(rail, _)| rail);
    assert_eq!([rail("mlx5_0"), rail("mlx5.7"), rail("mlx5_1")], [Some("0".into()), Some("blue".into()), None]);
}

#[test]
fn named_interfaces_enable_microburst() {
    let env = [("FABRICLENS_AGENT_MICROBURST_NETDEVS", "eth0, eth1"), ("FABRICLENS_AGENT_MICROBURST_SHARE", "0.5")];
    let settings = from("[microburst]\nbytes = \"1MB\"", &env, &Overrides::default()).unwrap().settings;
    assert_eq!(settings.microburst.netdevs, ["eth0", "eth1"]);
    assert_eq!((settings.microburst.share, settings.microburst.bytes), (0.5, Some(1_000_000)));
    assert_eq!(settings.samplers.get("microburst"), Some(&true));
    let quiet = from("", &[], &Overrides::default()).unwrap().settings;
    assert_eq!((quiet.samplers.get("microburst"), quiet.microburst.share), (None, 0.9));
    let message = from("", &[("FABRICLENS_AGENT_MICROBURST_SHARE", "half")], &Overrides::default()).unwrap_err();
    assert!(message.to_string().contains("not a number"), "{message}");
}

#[test]
fn remote_plain_text_needs_consent() {
    for (text, accept) in [
        ("[http]\nlisten = \"0.0.0.0:7471\"", "\ninsecure = true"),
        ("[collector]\nurl = \"http://10.0.0.1:4317\"", "\ninsecure = true"),
    ] {
        assert!(error(text).contains("insecure = true"), "{text}");
        from(&format!("{text}{accept}"), &[], &Overrides::default()).unwrap();
    }
    let tls =
        "[http]\nlisten = \"0.0.0.0:7471\"\ncert = \"c\"\nkey = \"k\"\n[collector]\nurl = \"https://10.0.0.1:4317\"";
    let c = from(tls, &[], &Overrides::default()).unwrap();
    assert!(!c.http.unwrap().insecure && !c.collector.unwrap().insecure);
    let off = from("[http]\nenabled = false", &[], &Overrides::default()).unwrap();
    assert!(off.http.is_none() && off.collector.is_none());
}

#[test]
fn world_readable_key_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key.pem");
    std::fs::write(&key, "x").unwrap();
    let mode = |mode| std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    for section in ["http", "collector"] {
        let text = format!("[{section}]\ncert = \"c\"\nkey = {key:?}\n[collector]\nurl = \"https://x:1\"");
        let text = if section == "http" { text } else { text.replace("\n[collector]", "") };
        mode(0o644);
        let said = error(&text);
        assert!(said.contains(&format!("{section}.key")) && said.contains("chmod o-rwx"), "{said}");
        mode(0o640);
        from(&text, &[], &Overrides::default()).unwrap();
    }
}
