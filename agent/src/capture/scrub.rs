//! Replaces identities of the site: MAC addresses, GUIDs, GIDs, switch ids, host names, names that people gave devices, and
//! in files of sysfs and procfs every word that [`allowed`](super::allowed) does not know as harmless.
//!
//! The same value is always replaced by the same one within a capture, so that links between files stay; the key is
//! random, so that two captures cannot be joined. Vendor parts (the first three bytes), zeros and broadcast stay.

use super::allowed::{is_harmless, is_kernel_name, is_key, is_vocabulary};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Files that consist of one identity without separators.
const HEX_FILES: &[&str] = &["phys_switch_id", "phys_port_id"];
/// Files that hold IPv4 addresses; elsewhere four numbers with dots are a firmware version.
const IPV4_FILES: &[&str] = &["arp_ip_target"];

/// Replacements of one capture.
#[derive(Debug)]
pub(super) struct Scrub {
    key: RandomState,
    names: Vec<String>,
    host: String,
    /// Replacements of names that people gave devices.
    devices: BTreeMap<String, String>,
}

impl Scrub {
    pub(super) fn new(host: &str) -> Self {
        let key = RandomState::new();
        let short = host.split('.').next().unwrap_or(host);
        let names = [host, short].iter().filter(|n| n.len() > 1).map(|n| (*n).to_owned()).collect();
        let host = format!("host-{:06x}", key.hash_one(host) & 0xff_ffff);
        Self { key, names, host, devices: BTreeMap::new() }
    }

    /// Replaces the name of a device everywhere, unless the kernel gave it.
    pub(super) fn device(&mut self, name: &str) {
        if !is_kernel_name(name) {
            // Names of interfaces have at most 15 bytes.
            self.devices.insert(name.to_owned(), self.named("dev", name));
        }
    }

    /// Replacement of the host name.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Replacement of a user or cluster name.
    pub(super) fn named(&self, kind: &str, name: &str) -> String {
        format!("{kind}-{:06x}", self.hash(name) & 0xff_ffff)
    }

    /// Replacement of a user id; ids of system users stay, as they are the same everywhere.
    pub(super) fn user(&self, uid: u32) -> u32 {
        const FIRST: u32 = 1000;
        let [a, b, c, ..] = self.hash(&uid.to_string()).to_be_bytes();
        if uid < FIRST { uid } else { FIRST + u32::from_be_bytes([0, a, b, c]) }
    }

    /// Replacement of an address, of the same family; unspecified and loopback addresses stay.
    pub(super) fn address(&self, address: IpAddr) -> IpAddr {
        let new = self.hash(&address.to_string()).to_be_bytes();
        match address {
            _ if address.is_unspecified() || address.is_loopback() => address,
            IpAddr::V4(_) => Ipv4Addr::new(10, new[0], new[1], new[2]).into(),
            IpAddr::V6(_) => Ipv6Addr::from((0xfd << 120) | u128::from(u64::from_be_bytes(new))).into(),
        }
    }

    /// Scrubs the text of a file; its path selects the rules.
    pub(super) fn file(&self, path: &Path, text: &str) -> String {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let whole = text.trim();
        if HEX_FILES.contains(&name) && !whole.is_empty() && whole.bytes().all(|b| b.is_ascii_hexdigit()) {
            let digits = format!("{:016x}", self.hash(whole)).repeat(whole.len() / 16 + 1);
            return format!("{}\n", &digits[..whole.len()]);
        }
        if IPV4_FILES.contains(&name) {
            return text.split_inclusive(char::is_whitespace).map(|word| self.ipv4(word)).collect();
        }
        // Recorded kernel calls and processes are written here, field by field.
        let is_copy = ["sys", "etc/os-release", "proc/sys", "proc/net"].iter().any(|dir| path.starts_with(dir));
        if is_vocabulary(name) || !is_copy || name == "cgroup.procs" {
            return self.text(text);
        }
        if matches!(name, "uevent" | "os-release") {
            let kept = text.lines().filter(|line| line.split_once('=').is_some_and(|(key, _)| is_key(key)));
            return kept.map(|line| self.pair(line)).collect();
        }
        self.words(text, true)
    }

    /// A line `KEY=value`; the value is checked word by word, except for a module alias, which is made of ids.
    fn pair(&self, line: &str) -> String {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let value = if matches!(key, "MODALIAS" | "DRIVER" | "PCI_ID" | "PCI_SUBSYS_ID" | "PCI_CLASS") {
            self.text(value)
        } else {
            self.words(value, true)
        };
        format!("{key}={value}\n")
    }

    /// Scrubs any text or path.
    pub(super) fn text(&self, text: &str) -> String {
        self.words(text, false)
    }

    /// Scrubs a path; links to other interfaces have their names.
    pub(super) fn path(&self, path: &str) -> String {
        let part = |part: &str| {
            let link = ["lower_", "upper_"].iter().find_map(|prefix| Some((*prefix, part.strip_prefix(prefix)?)));
            match link {
                Some((prefix, name)) => format!("{prefix}{}", self.words(name, true)),
                None => self.text(part),
            }
        };
        path.split('/').map(part).collect::<Vec<_>>().join("/")
    }

    /// Scrubs words; those that are not known as harmless are replaced, too, if `strict`.
    fn words(&self, text: &str, strict: bool) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == ':' || c == '-' || c == '_' || c == '.';
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            if end > 0 {
                self.word(&rest[..end], strict, &mut out);
                rest = &rest[end..];
            } else {
                let c = rest.chars().next().unwrap_or_default();
                // Letters outside of ASCII belong to names.
                out.push(if strict && !c.is_ascii() { '?' } else { c });
                rest = &rest[c.len_utf8()..];
            }
        }
        out
    }

    fn word(&self, word: &str, strict: bool, out: &mut String) {
        let device = |(name, new): (&String, &String)| {
            let rest = word.strip_prefix(name.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('.'))?;
            Some(format!("{new}{rest}"))
        };
        if self.names.iter().any(|n| n.eq_ignore_ascii_case(word)) {
            out.push_str(&self.host);
        } else if let Some(new) = self.devices.iter().find_map(device) {
            out.push_str(&new);
        } else if let Some(mac) = word.strip_prefix("enx").filter(|m| m.len() == 12 && is_hex(m)) {
            out.push_str(&format!("enx{}{:06x}", &mac[..6], self.hash(mac) & 0xff_ffff));
        } else {
            let groups: Vec<&str> = word.split(':').collect();
            let all = |n: usize| groups.iter().all(|g| g.len() == n && is_hex(g));
            match groups.len() {
                6 if all(2) => self.bytes(&groups, 3, out),
                8 if all(2) => self.bytes(&groups, 3, out),
                // IP over InfiniBand: queue pair number, subnet prefix, GUID.
                20 if all(2) => {
                    out.push_str(&groups[..12].join(":"));
                    out.push(':');
                    self.bytes(&groups[12..], 3, out);
                }
                4 if all(4) => self.guid(&groups, out),
                8 if all(4) => self.gid(&groups, out),
                _ if !strict || is_harmless(word) => out.push_str(word),
                _ => out.push_str(&self.named("x", word)),
            }
        }
    }

    /// Replaces the bytes of an address, except for the first `keep`.
    fn bytes(&self, groups: &[&str], keep: usize, out: &mut String) {
        let plain = groups.iter().all(|g| *g == "00") || groups.iter().all(|g| g.eq_ignore_ascii_case("ff"));
        if plain {
            out.push_str(&groups.join(":"));
            return;
        }
        let bytes = groups.concat();
        let digits = if bytes.len() == 16 { self.guid_digits(&bytes) } else { format!("{:06x}", self.hash(&bytes)) };
        let new = format!("{}{}", &bytes[..2 * keep], &digits[digits.len() - (bytes.len() - 2 * keep)..]);
        let pairs: Vec<&str> = (0..new.len()).step_by(2).map(|i| &new[i..i + 2]).collect();
        out.push_str(&pairs.join(":"));
    }

    fn guid(&self, groups: &[&str], out: &mut String) {
        let old = groups.concat();
        let new = if old.bytes().all(|b| b == b'0') { old } else { self.guid_digits(&old) };
        let groups: Vec<&str> = (0..16).step_by(4).map(|i| &new[i..i + 4]).collect();
        out.push_str(&groups.join(":"));
    }

    /// Sixteen digits: the vendor's six, then ten replaced ones.
    fn guid_digits(&self, old: &str) -> String {
        format!("{}{:010x}", &old[..6], self.hash(old) & 0xff_ffff_ffff)
    }

    fn gid(&self, groups: &[&str], out: &mut String) {
        let zero = |g: &[&str]| g.iter().all(|g| *g == "0000");
        let (prefix, id) = groups.split_at(4);
        if zero(prefix) && id[..2] == ["0000", "ffff"] {
            // An embedded IPv4 address stays one.
            let new = self.hash(&id.concat()) & 0xffff_ffff;
            out.push_str(&format!("{}:0000:ffff:{:04x}:{:04x}", prefix.join(":"), new >> 16, new & 0xffff));
            return;
        }
        if zero(&prefix[1..]) {
            out.push_str(&prefix.join(":"));
        } else {
            let new = self.hash(&prefix.concat());
            out.push_str(&format!("{}:{:04x}:{:04x}:{:04x}", prefix[0], new >> 48, new >> 32 & 0xffff, new & 0xffff));
        }
        out.push(':');
        self.guid(id, out);
    }

    fn ipv4(&self, word: &str) -> String {
        let address: Option<Ipv4Addr> = word.trim().parse().ok();
        address.map_or_else(|| word.to_owned(), |a| word.replace(word.trim(), &self.address(a.into()).to_string()))
    }

    /// Hash that ignores case.
    fn hash(&self, old: &str) -> u64 {
        self.key.hash_one(old.to_ascii_lowercase())
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_replaced_consistently_and_nothing_else() {
        let s = Scrub::new("node17.example.org");
        let text = "mac B8:CE:F6:01:02:03 again b8:ce:f6:01:02:03\nguid b8ce:f603:0001:0203\n\
                    gid fe80:0000:0000:0000:b8ce:f603:0001:0203\nnode17 HCA-1\nnode17.example.org";
        let new = s.text(text);
        for secret in ["01:02:03", "0001:0203", "node17"] {
            assert!(!new.contains(secret), "{secret} in {new}");
        }
        assert!(new.contains("B8:CE:F6:") && new.contains("fe80:0000:0000:0000:b8ce:f6"), "{new}");
        let words: Vec<&str> = new.split_whitespace().collect();
        assert_eq!(words[1].to_lowercase(), words[3].to_lowercase());
        assert!(words[7].ends_with(words[5]), "the GID holds the GUID: {new}");
        assert_eq!(words[8], words[10]);
        assert_ne!(s.text("b8ce:f603:0001:0203"), Scrub::new("node17").text("b8ce:f603:0001:0203"));

        for same in [
            "0000:0000:0000:0000",
            "ff:ff:ff:ff:ff:ff",
            "00:00:00:00:00:00",
            "0000:0000:0000:0000:0000:0000:0000:0000",
            "fe80:0000:0000:0000:0000:0000:0000:0000",
            "0000:3b:00.0",
            "232.0.155.0",
            "28.39.1002 (MT_0000000838)",
            "Tcp: 1 2 3",
            "sys/class/net/ens1f0np0",
            "4: ACTIVE",
        ] {
            assert_eq!(s.text(same), same);
        }
    }

    #[test]
    fn special_files_and_names() {
        let s = Scrub::new("h1");
        let id = s.file(Path::new("sys/phys_switch_id"), "e09d730003a1420c\n");
        assert!(id.len() == 17 && id != "e09d730003a1420c\n", "{id}");
        assert_eq!(s.file(Path::new("sys/arp_ip_target"), "x 1.2.3\n"), "x 1.2.3\n");
        assert!(s.file(Path::new("sys/arp_ip_target"), "192.0.2.7\n").starts_with("10."));
        let mapped = s.text("0000:0000:0000:0000:0000:ffff:c000:0207");
        assert!(mapped.starts_with("0000:0000:0000:0000:0000:ffff:") && !mapped.ends_with("c000:0207"));
        let netdev = s.text("sys/class/net/enxb8cef6010203/mtu");
        assert!(netdev.starts_with("sys/class/net/enxb8cef6") && !netdev.contains("010203"), "{netdev}");
        let ipoib = s.text("00:00:10:29:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:01:02:03");
        let guid = s.text("b8ce:f603:0001:0203").replace(':', "");
        assert_eq!(ipoib.replace(':', "")[24..], guid, "the address holds the GUID");
    }
}
