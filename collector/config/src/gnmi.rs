//! Checks `[[gnmi.targets]]`: switches that the collector reads by gNMI.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::value::{time, unique, wrong};

/// Most targets of one collector.
const TARGETS: usize = 4096;
/// Longest interval between samples. Detectors treat a port as gone after a minute.
const LONGEST: Duration = Duration::from_secs(60);
/// Longest name of a switch, bytes, as of DNS.
const NAME_BYTES: usize = 255;

/// A switch that the collector reads by gNMI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GnmiTarget {
    /// Name of the switch: the label `host` of its series, and what LLDP of others calls it.
    pub name: String,
    /// Host name or IP address, and port.
    pub address: String,
    /// Its paths and its limits.
    pub kind: GnmiKind,
    /// Time between two samples.
    pub interval: Duration,
    /// User and the file with the password, which is read for each connection.
    pub login: Option<(String, PathBuf)>,
    /// `None`: unencrypted.
    pub tls: Option<GnmiTls>,
}

/// TLS of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GnmiTls {
    /// Certificate authority (PEM); by default those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate and key (PEM) of this collector, for targets that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Name in the target's certificate, if it is not the host of the address.
    pub server_name: Option<String>,
}

/// What a target offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GnmiKind {
    /// SONiC: the database of counters, and events.
    Sonic,
    /// OpenConfig models.
    OpenConfig,
    /// Cumulus Linux: OpenConfig models with NVIDIA's additions.
    Cumulus,
}

impl GnmiKind {
    const NAMED: [(&'static str, Self); 3] =
        [("sonic", Self::Sonic), ("openconfig", Self::OpenConfig), ("cumulus", Self::Cumulus)];

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Shortest interval that such targets accept.
    pub fn least_interval(self) -> Duration {
        match self {
            Self::Sonic | Self::OpenConfig => Duration::from_secs(1),
            Self::Cumulus => Duration::from_secs(5),
        }
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawGnmi {
    pub targets: Vec<RawTarget>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawTarget {
    name: String,
    address: String,
    kind: String,
    interval: Option<String>,
    username: Option<String>,
    password_file: Option<String>,
    tls: Option<bool>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    server_name: Option<String>,
}

/// Checks all targets; their names must differ.
pub(super) fn check(raw: RawGnmi) -> Result<Vec<GnmiTarget>, ConfigError> {
    if raw.targets.len() > TARGETS {
        return wrong("gnmi.targets", format!("at most {TARGETS}"));
    }
    unique("gnmi.targets.name", raw.targets.into_iter().map(target), |target| &target.name)
}

fn target(raw: RawTarget) -> Result<GnmiTarget, ConfigError> {
    let name = raw.name;
    let shown = name.chars().any(|c| c.is_control() || c.is_whitespace());
    if name.is_empty() || name.len() > NAME_BYTES || shown {
        return wrong("gnmi.targets.name", format!("{name:?} is no name of a switch; write it as LLDP shows it"));
    }
    let address = raw.address;
    let uri = format!("http://{address}").parse::<ureq::http::Uri>().ok();
    let plain = uri.filter(|u| u.port_u16().is_some() && u.path() == "/" && !address.contains(['@', '/']));
    if plain.is_none() {
        let message = format!("{address:?} of {name} is not a host and a port; write for instance leaf1:8080");
        return wrong("gnmi.targets.address", message);
    }
    let Some((_, kind)) = GnmiKind::NAMED.into_iter().find(|(known, _)| *known == raw.kind) else {
        return wrong("gnmi.targets.kind", format!("{:?} of {name}: write sonic, openconfig or cumulus", raw.kind));
    };
    let least = kind.least_interval();
    let mut interval = least;
    time(&mut interval, raw.interval, "gnmi.targets.interval")?;
    if interval < least || interval > LONGEST {
        let kind = kind.name();
        let message = format!(
            "{interval:?} of {name}: {kind} targets accept from {least:?}, and detectors need at most {LONGEST:?}"
        );
        return wrong("gnmi.targets.interval", message);
    }
    let login = match (raw.username, raw.password_file) {
        (Some(user), Some(file)) => Some((user, file.into())),
        (None, None) => None,
        (Some(_), None) => {
            return wrong("gnmi.targets.password_file", format!("missing for {name}; a username needs it"));
        }
        (None, Some(_)) => return wrong("gnmi.targets.username", format!("missing for {name}; a password needs it")),
    };
    let identity = match (raw.cert, raw.key) {
        (Some(cert), Some(key)) => Some((cert.into(), key.into())),
        (None, None) => None,
        (Some(_), None) => return wrong("gnmi.targets.key", format!("missing for {name}; a certificate needs it")),
        (None, Some(_)) => return wrong("gnmi.targets.cert", format!("missing for {name}; a key needs it")),
    };
    let tls = GnmiTls { ca: raw.ca.map(PathBuf::from), identity, server_name: raw.server_name };
    let tls = match raw.tls.unwrap_or(true) {
        true => Some(tls),
        false if tls != GnmiTls::default() => {
            return wrong("gnmi.targets.tls", format!("false for {name} excludes ca, cert, key and server_name"));
        }
        false => None,
    };
    Ok(GnmiTarget { name, address, kind, interval, login, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<Vec<GnmiTarget>, String> {
        check(toml::from_str(toml).map_err(|e| e.to_string())?).map_err(|e| e.to_string())
    }

    fn one(extra: &str) -> Result<Vec<GnmiTarget>, String> {
        read(&format!("[[targets]]\nname = \"leaf1\"\naddress = \"leaf1:8080\"\nkind = \"sonic\"\n{extra}"))
    }

    #[test]
    fn tls_is_on_and_the_interval_is_the_shortest() {
        let targets = one("").unwrap();
        assert_eq!((targets[0].interval, &targets[0].tls), (Duration::from_secs(1), &Some(GnmiTls::default())));
        let cumulus = read("[[targets]]\nname = \"a\"\naddress = \"[fe80::1]:9339\"\nkind = \"cumulus\"\ntls = false");
        let cumulus = cumulus.unwrap().remove(0);
        assert_eq!((cumulus.interval, cumulus.tls), (Duration::from_secs(5), None));
    }

    #[test]
    fn errors_name_the_key_and_the_target() {
        for (extra, error) in [
            ("interval = \"500ms\"", "gnmi.targets.interval: 500ms of leaf1: sonic targets accept from 1s"),
            ("interval = \"2m\"", "gnmi.targets.interval: 120s of leaf1"),
            ("username = \"a\"", "gnmi.targets.password_file: missing for leaf1"),
            ("cert = \"a\"", "gnmi.targets.key: missing for leaf1"),
            ("tls = false\nca = \"a\"", "gnmi.targets.tls: false for leaf1"),
            ("password = \"a\"", "unknown field `password`"),
        ] {
            let told = one(extra).unwrap_err();
            assert!(told.contains(error), "{told}");
        }
        for (text, key) in [
            ("name = \"\"\naddress = \"a:1\"\nkind = \"sonic\"", "gnmi.targets.name: "),
            ("name = \"a\"\naddress = \"a\"\nkind = \"sonic\"", "gnmi.targets.address: "),
            ("name = \"a\"\naddress = \"u:p@a:1\"\nkind = \"sonic\"", "gnmi.targets.address: "),
            ("name = \"a\"\naddress = \"http://a:1\"\nkind = \"sonic\"", "gnmi.targets.address: "),
            ("name = \"a\"\naddress = \"a:1\"\nkind = \"eos\"", "gnmi.targets.kind: "),
        ] {
            let told = read(&format!("[[targets]]\n{text}")).unwrap_err();
            assert!(told.starts_with(key), "{told}");
        }
        let twice = "[[targets]]\nname = \"a\"\naddress = \"a:1\"\nkind = \"sonic\"\n".repeat(2);
        assert!(read(&twice).unwrap_err().starts_with("gnmi.targets.name: "));
    }
}
