//! Baselines that a site declares: which ports must have which settings.

use std::collections::{BTreeMap, BTreeSet};

use fabriclens_base::nearest;
use fabriclens_model::hostlist::{self, HostlistError};
use serde::{Deserialize, Serialize};

use crate::key::{KEYS, Key};
use crate::member::Member;
use crate::value::{NONE, entries, number};

/// Most baselines of one file.
const MOST: usize = 1000;

/// Why a file of baselines is refused.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Not TOML of this form.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// Too many.
    #[error("more than {MOST} baselines; several hosts and rails can share one")]
    Many,
    /// No such key.
    #[error("baseline {name:?}: there is no setting {key:?}{}; docs/audit.md lists them", hint.map_or_else(String::new, |hint| format!("; did you mean {hint}?")))]
    Key {
        /// The baseline.
        name: String,
        /// The key as written.
        key: String,
        /// Nearest valid key.
        hint: Option<&'static str>,
    },
    /// An invalid host list.
    #[error("baseline {name:?}: {error}")]
    Hosts {
        /// The baseline.
        name: String,
        /// What is wrong.
        error: HostlistError,
    },
}

/// A file of baselines, as written.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineFile {
    /// Its baselines; of several with the same setting for a port, the first one counts.
    #[serde(default)]
    pub baseline: Vec<Written>,
}

/// A baseline, as written. A port belongs to it if it has one of the values of each list; an empty list matches all ports.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Name in drifts.
    pub name: String,
    /// Host list: `gpu-[001-128],login1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hosts: String,
    /// Rails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<String>,
    /// Models of adapters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Kinds of fabric: `roce`, `infiniband`, `ethernet`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fabrics: Vec<String>,
    /// Expected values by key.
    pub settings: BTreeMap<String, Expected>,
}

/// An expected value, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Expected {
    /// A value as `fabriclens audit` prints it.
    Text(String),
    /// A number, or the only member of a set.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// Any of these.
    AnyOf(Vec<Expected>),
    /// Entries of a map; the others may be anything.
    Entries(BTreeMap<String, Expected>),
}

impl Expected {
    /// Whether a value is as expected.
    fn allows(&self, value: &str) -> bool {
        match self {
            Self::AnyOf(any) => any.iter().any(|one| one.allows(value)),
            Self::Entries(wanted) => {
                let has: BTreeMap<&str, &str> = entries(value).collect();
                wanted.iter().all(|(name, one)| has.get(&**name).is_some_and(|value| one.allows(value)))
            }
            Self::Text(_) | Self::Integer(_) | Self::Float(_) => is_same(&self.text(), value),
        }
    }

    /// Text for people, and for the comparison of plain values.
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => number(*value),
            Self::AnyOf(any) => any.iter().map(Self::text).collect::<Vec<_>>().join(" or "),
            Self::Entries(wanted) if wanted.is_empty() => NONE.to_owned(),
            Self::Entries(wanted) => {
                wanted.iter().map(|(name, one)| format!("{name}={}", one.text())).collect::<Vec<_>>().join(",")
            }
        }
    }
}

/// Whether a value in a file equals a value that an agent sent. Files may write `400G` for `400 Gb/s`, and `0,0,0,1,0,0,0,0` or `0x08`
/// for the priority 3.
fn is_same(written: &str, value: &str) -> bool {
    if written == value {
        return true;
    }
    if let Some(members) = priorities(written) {
        return members == value;
    }
    let number = |text: &str| -> (String, String) {
        let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        (text[..at].to_owned(), text[at..].trim().to_lowercase())
    };
    let ((written, unit), (value, of)) = (number(written), number(value));
    !of.is_empty() && written == value && of.starts_with(&unit)
}

/// Set of priorities that is written as a mask: eight bits from priority 0 on, or a hexadecimal number.
fn priorities(mask: &str) -> Option<String> {
    let bits: Vec<bool> = match mask.strip_prefix("0x") {
        Some(digits) => {
            let bits = u8::from_str_radix(digits, 16).ok()?;
            (0..8).map(|priority| bits >> priority & 1 == 1).collect()
        }
        None => mask
            .split(',')
            .map(|bit| match bit.trim() {
                "0" => Some(false),
                "1" => Some(true),
                _ => None,
            })
            .collect::<Option<_>>()?,
    };
    let on = || bits.iter().zip(["0", "1", "2", "3", "4", "5", "6", "7"]).filter(|(on, _)| **on).map(|(_, name)| name);
    (bits.len() == 8).then(|| crate::value::set(on()))
}

/// A checked baseline.
#[derive(Debug)]
pub struct SettingsBaseline {
    name: String,
    /// Empty: all hosts.
    hosts: BTreeSet<String>,
    rails: Vec<String>,
    models: Vec<String>,
    fabrics: Vec<String>,
    /// By position in [`KEYS`].
    expected: BTreeMap<usize, Expected>,
}

impl SettingsBaseline {
    /// Parses a file.
    ///
    /// # Errors
    /// [`BaselineError`] of the first baseline that is invalid.
    pub fn parse(text: &str) -> Result<Vec<Self>, BaselineError> {
        let file: BaselineFile = toml::from_str(text)?;
        if file.baseline.len() > MOST {
            return Err(BaselineError::Many);
        }
        file.baseline.into_iter().map(Self::check).collect()
    }

    fn check(written: Written) -> Result<Self, BaselineError> {
        let Written { name, hosts, rails, models, fabrics, settings } = written;
        let hosts = match hosts.is_empty() {
            true => BTreeSet::new(),
            false => hostlist::expand(&hosts)
                .map_err(|error| BaselineError::Hosts { name: name.clone(), error })?
                .into_iter()
                .collect(),
        };
        let mut expected = BTreeMap::new();
        for (key, value) in settings {
            let Some(at) = Key::position(&key) else {
                let hint = nearest(&key, KEYS.iter().map(|key| key.name));
                return Err(BaselineError::Key { name, key, hint });
            };
            expected.insert(at, value);
        }
        Ok(Self { name, hosts, rails, models, fabrics, expected })
    }

    fn covers(&self, member: &Member) -> bool {
        let any = |list: &[String], value: &str| list.is_empty() || list.iter().any(|one| one == value);
        (self.hosts.is_empty() || self.hosts.contains(&member.host))
            && any(&self.rails, &member.rail)
            && any(&self.models, &member.model)
            && any(&self.fabrics, &member.fabric)
    }
}

/// What baselines say of a value.
pub(crate) enum Declared<'a> {
    /// It is as expected.
    Right,
    /// It is not: name of the baseline, and the expected value.
    Wrong(&'a str, String),
}

/// What the first baseline with that key (by position) says of a member's value; `None` if no baseline has it.
pub(crate) fn declared<'a>(
    baselines: &[&'a SettingsBaseline],
    member: &Member,
    key: usize,
    value: &str,
) -> Option<Declared<'a>> {
    let of = |baseline: &'a SettingsBaseline| Some((baseline, baseline.expected.get(&key)?));
    let (baseline, expected) =
        baselines.iter().filter(|baseline| baseline.covers(member)).find_map(|baseline| of(baseline))?;
    Some(if expected.allows(value) { Declared::Right } else { Declared::Wrong(&baseline.name, expected.text()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fleet;

    const FILE: &str = r#"
        [[baseline]]
        name = "login"
        hosts = "login[1-2]"
        settings = { netdev_mtu = 1500 }

        [[baseline]]
        name = "compute"
        rails = ["0", "1"]
        fabrics = ["roce"]
        [baseline.settings]
        pfc_priorities = 3
        netdev_mtu = [9000, 4200]
        speed = "400 Gb/s"
        dscp_map = { 26 = 3, 48 = 6 }
    "#;

    fn said(host: &str, rail: &str, key: &str, value: &str) -> Option<String> {
        let (baselines, members) = (SettingsBaseline::parse(FILE).unwrap(), fleet([(host, rail)]));
        let member = members.get(host, &format!("mlx5_{rail}/1")).unwrap();
        let all: Vec<&SettingsBaseline> = baselines.iter().collect();
        match declared(&all, member, Key::position(key).unwrap(), value)? {
            Declared::Right => Some("right".to_owned()),
            Declared::Wrong(name, expected) => Some(format!("{name}: {expected}")),
        }
    }

    #[test]
    fn first_baseline_with_the_key_counts() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(said("gpu1", "0", "pfc_priorities", "3"), text("right"));
        assert_eq!(said("gpu1", "0", "pfc_priorities", NONE), text("compute: 3"));
        assert_eq!(said("gpu1", "0", "netdev_mtu", "4200"), text("right"));
        assert_eq!(said("gpu1", "0", "netdev_mtu", "1500"), text("compute: 9000 or 4200"));
        assert_eq!(said("login2", "0", "netdev_mtu", "1500"), text("right"), "the first one that covers the port");
        assert_eq!(said("gpu1", "2", "netdev_mtu", "1500"), None, "no baseline for this rail");
        assert_eq!(said("gpu1", "0", "firmware", "1"), None, "no baseline has the key");
    }

    #[test]
    fn maps_may_have_more_entries_than_expected() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(said("gpu1", "0", "dscp_map", "8=1,26=3,48=6"), text("right"));
        assert_eq!(said("gpu1", "0", "dscp_map", "26=3"), text("compute: 26=3,48=6"));
    }

    #[test]
    fn values_may_be_written_in_other_ways() {
        for (written, value) in [
            ("0,0,0,1,0,0,0,0", "3"),
            ("0x08", "3"),
            ("0x18", "3,4"),
            ("0,0,0,0,0,0,0,0", NONE),
            ("400", "400 Gb/s"),
            ("400G", "400 Gb/s"),
            ("32 gt/s", "32 GT/s"),
        ] {
            assert!(is_same(written, value), "{written} {value}");
        }
        for (written, value) in
            [("0,1", "1"), ("0x08", "4"), ("40", "400 Gb/s"), ("400 MB", "400 Gb/s"), ("dscp", "pcp"), ("", "9000")]
        {
            assert!(!is_same(written, value), "{written} {value}");
        }
    }

    #[test]
    fn examples_of_the_package_are_valid() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/config/baselines");
        let files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 2);
        for file in files {
            let baselines = SettingsBaseline::parse(&std::fs::read_to_string(&file).unwrap());
            assert!(!baselines.unwrap_or_else(|error| panic!("{}: {error}", file.display())).is_empty());
        }
    }

    #[test]
    fn errors_name_the_baseline_and_the_remedy() {
        let error = |text: &str| SettingsBaseline::parse(text).unwrap_err().to_string();
        let of = |settings: &str| format!("[[baseline]]\nname = \"b\"\n{settings}\n");
        assert!(error(&of("settings = { pfc_priority = 3 }")).contains("did you mean pfc_priorities?"));
        assert!(error(&of("hosts = \"gpu[1-\"\nsettings = {}")).contains("baseline \"b\""));
        assert!(error(&of("rail = [\"0\"]\nsettings = {}")).contains("unknown field `rail`"));
        assert!(error(&of("settings = {}").repeat(MOST + 1)).contains("more than 1000"));
    }
}
