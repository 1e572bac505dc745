//! What a switch accepts, and what is wrong with it.

use std::time::Duration;

use base64::Engine as _;
use fabriclens_gnmi::proto::{Encoding, SubscriptionList, SubscriptionMode};
use tonic::Status;
use tonic::metadata::MetadataMap;

/// Rules of a kind of switch.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Tables of redis as SONiC has them, rather than leaves of models.
    pub tables: bool,
    /// Shortest interval; an interval of 0 is this one.
    pub least: Duration,
    /// User and password.
    pub login: Option<(String, String)>,
    /// User and password come as in HTTP.
    pub basic: bool,
    /// What is wrong with it.
    pub fault: Option<Fault>,
}

/// Ways in which a switch misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It accepts calls and never answers.
    Silent,
    /// It sends as much as it can.
    Flood,
    /// It sends a message larger than any limit.
    Huge,
    /// Its clock starts at 1970.
    Clock,
    /// It ends each stream after its first sample.
    Ends,
    /// It sends bytes that are no message of gNMI.
    Garbage,
}

impl Rules {
    /// SONiC: at least 1 s, values as text in JSON, user and password in two headers.
    pub fn sonic() -> Self {
        Self { tables: true, least: Duration::from_secs(1), login: None, basic: false, fault: None }
    }

    /// Cumulus: at least 5 s, leaves, basic authentication of HTTP, no `Get`.
    pub fn cumulus() -> Self {
        Self { tables: false, least: Duration::from_secs(5), login: None, basic: true, fault: None }
    }

    /// The same with a user.
    pub fn with_login(self, user: &str, password: &str) -> Self {
        Self { login: Some((user.to_owned(), password.to_owned())), ..self }
    }

    /// The same with a fault.
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    pub(crate) fn check_login(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let Some((user, password)) = &self.login else { return Ok(()) };
        let get = |name: &str| metadata.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let known = match self.basic {
            true => get("authorization") == format!("Basic {basic}"),
            false => get("username") == user && get("password") == password,
        };
        if known { Ok(()) } else { Err(Status::unauthenticated("Invalid Username or Password")) }
    }

    /// Time between two samples; `None` if values come at changes.
    pub(crate) fn interval(&self, list: &SubscriptionList) -> Result<Option<Duration>, Status> {
        if !self.tables && list.encoding() == Encoding::JsonIetf {
            return Err(Status::unimplemented("encoding JSON_IETF"));
        }
        let mut interval = None;
        for one in &list.subscription {
            if one.mode() != SubscriptionMode::Sample {
                continue;
            }
            let asked = Duration::from_nanos(one.sample_interval);
            if !asked.is_zero() && asked < self.least {
                let least = self.least.as_nanos();
                let text = format!("invalid interval: {}. It cannot be less than {least}", one.sample_interval);
                return Err(Status::invalid_argument(text));
            }
            interval = Some(asked.max(self.least));
        }
        Ok(interval)
    }
}
