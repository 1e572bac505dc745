//! Bearer tokens: generated here, printed once, and afterwards known only by their hash.
//!
//! A token is 256 random bits and cannot be guessed, so unlike a password it needs no slow hash. The file has one line
//! per token: `grafana = { roles = "read", sha256 = "…", expires = "2027-01-31T00:00:00Z" }`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use fabriclens_config::Roles;
use fabriclens_core::time;

/// Prefix by which secret scanners recognize leaked tokens.
const PREFIX: &str = "flt_";
/// Leading bytes of the hash used for the lookup; afterwards the whole hash is compared.
const KEY: usize = 8;

type Hash = [u8; 32];

/// A token as listed in the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// Name of its owner.
    pub name: Arc<str>,
    /// Roles.
    pub roles: Roles,
    /// The only hosts whose samples it may write; empty: any.
    pub hosts: Vec<String>,
    /// Expiry, Unix ms.
    pub expires_ms: Option<i64>,
    hash: Hash,
}

/// All tokens of the file.
#[derive(Debug, Default)]
pub struct Tokens(HashMap<[u8; KEY], Token>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenLine {
    roles: String,
    sha256: String,
    host: Option<BoundHosts>,
    expires: Option<String>,
}

/// One host, or several: an agent that reads an InfiniBand subnet writes for switches too.
#[derive(Deserialize)]
#[serde(untagged)]
enum BoundHosts {
    One(String),
    Several(Vec<String>),
}

impl Tokens {
    /// Reads a token file.
    ///
    /// # Errors
    /// Names the file, the token and the problem.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines: HashMap<String, TokenLine> = toml::from_str(text).map_err(|e| e.to_string())?;
        let mut tokens = HashMap::new();
        for (name, line) in lines {
            let wrong = |what: &str| format!("token {name:?}: {what}");
            let roles = line.roles.parse().map_err(|e: String| wrong(&e))?;
            let hash = unhex(&line.sha256).ok_or_else(|| wrong("sha256 is not 64 hexadecimal digits"))?;
            let not_a_time = || wrong("expires is not a time; write for instance 2027-01-31T00:00:00Z");
            let expires_ms = line.expires.map(|t| time::parse_time(&t).ok_or_else(not_a_time)).transpose()?;
            let mut key = [0; KEY];
            key.copy_from_slice(&hash[..KEY]);
            let hosts = match line.host {
                None => Vec::new(),
                Some(BoundHosts::One(host)) => vec![host],
                Some(BoundHosts::Several(hosts)) if hosts.is_empty() => return Err(wrong("host is an empty list")),
                Some(BoundHosts::Several(hosts)) => hosts,
            };
            let token = Token { name: name.as_str().into(), roles, hosts, expires_ms, hash };
            if let Some(other) = tokens.insert(key, token) {
                return Err(wrong(&format!("has the same hash as {:?}; each token needs its own", other.name)));
            }
        }
        Ok(Self(tokens))
    }

    /// Whether a token has this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.values().any(|token| *token.name == *name)
    }

    /// Looks up a presented token.
    pub fn find(&self, presented: &str) -> Option<&Token> {
        let hash = hash(presented);
        let (key, _) = hash.split_first_chunk::<KEY>()?;
        self.0.get(key).filter(|token| bool::from(token.hash.ct_eq(&hash)))
    }
}

/// Generates a token and its line for the file.
///
/// # Errors
/// If the system provides no random numbers.
pub fn new(name: &str, roles: &Roles, host: Option<&str>, expires_ms: Option<i64>) -> Result<(String, String), String> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| "the system provides no random numbers".to_owned())?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
    let mut line = toml::Table::new();
    line.insert("roles".to_owned(), roles.to_string().into());
    line.insert("sha256".to_owned(), hex(&hash(&token)).into());
    line.extend(host.map(|host| ("host".to_owned(), host.into())));
    line.extend(expires_ms.map(|ms| ("expires".to_owned(), time::format_time(ms).into())));
    let name = toml::Value::String(name.to_owned());
    Ok((token, format!("{name} = {}", toml::Value::Table(line))))
}

fn hash(token: &str) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 2 * hash.len() || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tokens_match_their_lines() {
        let roles: Roles = "read,write".parse().unwrap();
        let (grafana, first) = new("grafana", &roles, None, None).unwrap();
        let (agent, second) = new("gpu-01.example", &roles, Some("gpu-01"), Some(1_800_000_000_000)).unwrap();
        assert!(!first.contains(&grafana[4..]) && grafana.len() == 47, "{grafana}");
        let tokens = Tokens::parse(&format!("# who\n{first}\n{second}\n")).unwrap();
        let found = tokens.find(&grafana).unwrap();
        assert_eq!((&*found.name, &found.roles, found.hosts.len(), found.expires_ms), ("grafana", &roles, 0, None));
        let found = tokens.find(&agent).unwrap();
        assert_eq!((&*found.name, found.hosts.as_slice()), ("gpu-01.example", &["gpu-01".to_owned()][..]));
        assert_eq!(found.expires_ms, Some(1_800_000_000_000));
        for stranger in ["", "flt_", &grafana[1..], &format!("{grafana} "), &new("x", &roles, None, None).unwrap().0] {
            assert!(tokens.find(stranger).is_none(), "{stranger}");
        }
    }

    #[test]
    fn hashes_are_sha256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&hash("abc")), abc);
        let tokens = Tokens::parse(&format!("a = {{ roles = \"read\", sha256 = \"{abc}\" }}")).unwrap();
        assert!(tokens.find("abc").is_some());
        // Equal leading bytes are not enough.
        let near = format!("{}00", &abc[..62]);
        let tokens = Tokens::parse(&format!("a = {{ roles = \"read\", sha256 = \"{near}\" }}")).unwrap();
        assert!(tokens.find("abc").is_none());
    }

    #[test]
    fn token_may_list_several_hosts() {
        let abc = hex(&hash("abc"));
        let line = |hosts: &str| format!("a = {{ roles = \"ingest\", sha256 = \"{abc}\", host = {hosts} }}");
        let tokens = Tokens::parse(&line("[\"mgmt-01\", \"leaf1\"]")).unwrap();
        assert_eq!(tokens.find("abc").unwrap().hosts, ["mgmt-01", "leaf1"]);
        let error = Tokens::parse(&line("[]")).unwrap_err();
        assert!(error.contains("empty list"), "an empty list must not mean any host: {error}");
        assert!(Tokens::parse(&line("7")).is_err());
    }

    #[test]
    fn invalid_lines_are_named() {
        let abc = hex(&hash("abc"));
        for (line, says) in [
            ("a = { roles = \"root\", sha256 = \"HASH\" }".to_owned(), "\"a\": \"root\" is not a role"),
            ("a = { roles = \"read\", sha256 = \"12\" }".to_owned(), "64 hexadecimal digits"),
            (format!("a = {{ roles = \"read\", sha256 = \"+{}\" }}", &abc[1..]), "64 hexadecimal digits"),
            (format!("a = {{ roles = \"read\", sha256 = \"{abc}\", expires = \"soon\" }}"), "expires is not a time"),
            (format!("a = {{ roles = \"read\", sha256 = \"{abc}\", role = \"x\" }}"), "unknown field `role`"),
            (
                format!(
                    "a = {{ roles = \"read\", sha256 = \"{abc}\" }}\nb = {{ roles = \"read\", sha256 = \"{abc}\" }}"
                ),
                "has the same hash as",
            ),
        ] {
            let error = Tokens::parse(&line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
