//! Roles of callers, and the access that routes require.

use std::str::FromStr;

/// A role of a caller. `read` does not include `ingest`, nor the reverse: the credentials on every host can write
/// samples and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Write samples.
    Ingest,
    /// Read: queries, incidents, jobs, reports, `/metrics`.
    Read,
    /// Write samples, report jobs, act on incidents.
    Write,
    /// Everything.
    Admin,
}

/// All roles with their names in configuration and tokens.
pub const ROLES: [(Role, &str); 4] =
    [(Role::Ingest, "ingest"), (Role::Read, "read"), (Role::Write, "write"), (Role::Admin, "admin")];

/// Access that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Public.
    Public,
    /// Any role. Unknown paths require it, so that strangers learn nothing.
    AnyRole,
    /// Write samples.
    Ingest,
    /// Read.
    Read,
    /// Change jobs and incidents.
    Write,
    /// Administer the collector.
    Admin,
}

impl Role {
    /// Whether the role grants this access.
    pub fn grants(self, access: Access) -> bool {
        match access {
            Access::Public | Access::AnyRole => true,
            Access::Ingest => self != Self::Read,
            Access::Read => matches!(self, Self::Read | Self::Admin),
            Access::Write => matches!(self, Self::Write | Self::Admin),
            Access::Admin => self == Self::Admin,
        }
    }

    /// Name in configuration and tokens.
    pub fn name(self) -> &'static str {
        ROLES[self as usize].1
    }
}

/// A set of roles, written `read` or `read,write`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(Vec<Role>);

impl Roles {
    /// Creates a set of exactly these roles.
    pub fn new(mut roles: Vec<Role>) -> Self {
        roles.sort_unstable();
        roles.dedup();
        Self(roles)
    }

    /// Whether one of the roles grants this access.
    pub fn grant(&self, access: Access) -> bool {
        self.0.iter().any(|role| role.grants(access))
    }

    /// Adds all roles of another set.
    pub fn extend(&mut self, others: &Self) {
        *self = Self::new(self.0.iter().chain(&others.0).copied().collect());
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|role| role.name()).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Roles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |name: &str| {
            let found = ROLES.iter().find(|(_, known)| *known == name.trim());
            found.map(|(role, _)| *role).ok_or_else(|| {
                let all: Vec<&str> = ROLES.iter().map(|(_, name)| *name).collect();
                format!("{name:?} is not a role; roles are {}, separated by commas", all.join(", "))
            })
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_parse_as_they_print() {
        let roles: Roles = "write, read,read".parse().unwrap();
        assert_eq!(roles.to_string(), "read,write");
        assert!(roles.grant(Access::Read) && roles.grant(Access::Ingest) && !roles.grant(Access::Admin));
        assert!("root".parse::<Roles>().unwrap_err().contains("ingest, read, write, admin"));
        assert!("".parse::<Roles>().is_err());
        assert!(ROLES.iter().all(|(role, name)| role.name() == *name));
        assert!(!Roles::default().grant(Access::AnyRole), "no role");
    }
}
