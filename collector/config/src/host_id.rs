//! Pattern of SPIFFE IDs that name hosts (`auth.host_id`).

/// A pattern such as `spiffe://*/host/{host}`: `*` matches any one path segment, and so does `{host}`, which occurs
/// once and is the host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostId(Vec<String>);

/// Placeholder of the host name.
const HOST: &str = "{host}";

impl HostId {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Describes the problem with the pattern.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let parts: Vec<String> = pattern.split('/').map(str::to_owned).collect();
        let hosts = parts.iter().filter(|part| *part == HOST).count();
        if !pattern.starts_with("spiffe://")
            || hosts != 1
            || pattern.matches(['{', '*']).count()
                != parts.iter().filter(|part| matches!(part.as_str(), HOST | "*")).count()
        {
            return Err(format!(
                "{pattern:?}: write for instance spiffe://example.org/host/{HOST}, * for any one part"
            ));
        }
        Ok(Self(parts))
    }

    /// The pattern as configured.
    pub fn text(&self) -> String {
        self.0.join("/")
    }

    /// Returns the host name in an ID that matches the pattern.
    pub fn host<'a>(&self, id: &'a str) -> Option<&'a str> {
        let mut host = None;
        let mut parts = id.split('/');
        for wanted in &self.0 {
            let part = parts.next()?;
            match wanted.as_str() {
                HOST => host = Some(part),
                "*" => {}
                same if same == part => {}
                _ => return None,
            }
        }
        host.filter(|host| parts.next().is_none() && !host.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_matching_ids_name_a_host() {
        let host = |pattern: &str, id| HostId::parse(pattern).unwrap().host(id).map(str::to_owned);
        let any = "spiffe://*/host/{host}";
        assert_eq!(host(any, "spiffe://td/host/h1").as_deref(), Some("h1"));
        for other in [
            "spiffe://td/host/",
            "spiffe://td/host/h1/x",
            "spiffe://td/x/h1",
            "https://td/host/h1",
            "spiffe://a/b/host/h1",
        ] {
            assert_eq!(host(any, other), None, "{other}");
        }
        assert_eq!(host("spiffe://td/{host}/agent", "spiffe://td/h1/agent").as_deref(), Some("h1"));
        assert_eq!(host("spiffe://td/{host}/agent", "spiffe://other/h1/agent"), None);
        for bad in
            ["host/{host}", "spiffe://td/host", "spiffe://{host}/{host}", "spiffe://td/x{host}", "spiffe://t*/{host}"]
        {
            assert!(HostId::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(HostId::parse(any).unwrap().text(), any);
    }
}
