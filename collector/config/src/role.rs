//! What somebody may do, and what a route asks for.

use std::str::FromStr;

/// What may be given to somebody. `read` does not include `ingest`, nor the reverse: what is on every host can write
/// samples and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Write samples.
    Ingest,
    /// Ask: queries, incidents, jobs, reports, `/metrics`.
    Read,
    /// Write samples, tell of jobs, say something of incidents.
    Write,
    /// Everything.
    Admin,
}

/// Every role and its name.
pub const ROLES: [(Role, &str); 4] =
    [(Role::Ingest, "ingest"), (Role::Read, "read"), (Role::Write, "write"), (Role::Admin, "admin")];

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Some role, whichever: what is not served, so that strangers learn nothing.
    Any,
    /// To write samples.
    Ingest,
    /// To ask.
    Read,
    /// To say something of jobs and incidents.
    Write,
    /// To change the collector.
    Admin,
}

impl Role {
    /// Whether it is enough.
    pub fn meets(self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing | Needs::Any => true,
            Needs::Ingest => self != Self::Read,
            Needs::Read => matches!(self, Self::Read | Self::Admin),
            Needs::Write => matches!(self, Self::Write | Self::Admin),
            Needs::Admin => self == Self::Admin,
        }
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        ROLES[self as usize].1
    }
}

/// Some roles, written `read` or `read,write`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(Vec<Role>);

impl Roles {
    /// Exactly these.
    pub fn new(mut roles: Vec<Role>) -> Self {
        roles.sort_unstable();
        roles.dedup();
        Self(roles)
    }

    /// Whether one of them is enough.
    pub fn meet(&self, needs: Needs) -> bool {
        self.0.iter().any(|role| role.meets(needs))
    }

    /// These and others.
    pub fn and(&mut self, others: &Self) {
        *self = Self::new(self.0.iter().chain(&others.0).copied().collect());
    }

    /// There is none.
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
                format!("{name:?} is no role; there are {}, and several have commas between them", all.join(", "))
            })
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_as_they_are_written() {
        let roles: Roles = "write, read,read".parse().unwrap();
        assert_eq!(roles.to_string(), "read,write");
        assert!(roles.meet(Needs::Read) && roles.meet(Needs::Ingest) && !roles.meet(Needs::Admin));
        assert!("root".parse::<Roles>().unwrap_err().contains("ingest, read, write, admin"));
        assert!("".parse::<Roles>().is_err());
        assert!(ROLES.iter().all(|(role, name)| role.name() == *name));
        assert!(!Roles::default().meet(Needs::Any), "nobody");
    }
}
