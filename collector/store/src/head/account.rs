//! To whom the memory of a series is charged, and the part of the memory for all series that each may take. A series
//! without the label `host` counts for its `instance` (or `job`), and with all others of that kind: OpenTelemetry and
//! Prometheus name their hosts as they like.

use fabriclens_model::Labels;
use fabriclens_model::names::is_reserved;
use foldhash::HashMap;
use std::borrow::Cow;

/// Who pays for a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// The host that its label `host` names, without regard to case, as credentials compare it.
    Host,
    /// The instance, or else the job, of a series without a host.
    Instance,
    /// All series without a host.
    NoHost,
    /// The collector: series of jobs and incidents name hosts, which have not sent them.
    Collector,
}

impl Account {
    const ALL: [Self; 4] = [Self::Host, Self::Instance, Self::NoHost, Self::Collector];

    /// Part of the memory for all series: one in so many.
    pub fn fraction(self) -> usize {
        match self {
            Self::Host => 16,
            Self::Instance | Self::Collector => 8,
            Self::NoHost => 2,
        }
    }

    /// Who has reached its limit, for a message.
    pub fn describe(self, name: &str) -> String {
        match self {
            Self::Host => format!("host {name:?}"),
            Self::Instance => format!("instance {name:?}"),
            Self::NoHost => "all series without the label host together".to_owned(),
            Self::Collector => "the collector's own series (of jobs and incidents)".to_owned(),
        }
    }
}

/// The accounts of a series, with their names.
pub fn accounts(labels: &Labels) -> impl Iterator<Item = (Account, Cow<'_, str>)> {
    let host = labels.get("host");
    let [first, second] = if is_reserved(labels.metric()) {
        [Some((Account::Collector, "".into())), None]
    } else if host.is_empty() {
        let named = [labels.get("instance"), labels.get("job")].into_iter().find(|name| !name.is_empty());
        [Some((Account::NoHost, "".into())), named.map(|name| (Account::Instance, name.into()))]
    } else {
        [Some((Account::Host, lower(host))), None]
    };
    first.into_iter().chain(second)
}

fn lower(host: &str) -> Cow<'_, str> {
    if host.bytes().any(|b| b.is_ascii_uppercase()) { host.to_ascii_lowercase().into() } else { host.into() }
}

/// Bytes by account and name.
#[derive(Clone, Default)]
pub struct Charges([HashMap<Box<str>, usize>; Account::ALL.len()]);

impl Charges {
    /// Bytes of an account.
    pub fn of(&self, account: Account, name: &str) -> usize {
        self.0[account as usize].get(name).copied().unwrap_or(0)
    }

    /// Charges bytes to an account.
    pub fn add(&mut self, account: Account, name: &str, bytes: usize) {
        let charged = &mut self.0[account as usize];
        match charged.get_mut(name) {
            Some(sum) => *sum += bytes,
            None => _ = charged.insert(name.into(), bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_charged_to_who_sends_them() {
        let of = |labels: &[(&str, &str)]| -> Vec<(Account, String)> {
            let labels = Labels::new(labels.iter().copied());
            accounts(&labels).map(|(account, name)| (account, name.into_owned())).collect()
        };
        let one = |account, name: &str| (account, name.to_owned());
        assert_eq!(of(&[("__name__", "up"), ("host", "GPU-01"), ("instance", "x")]), [one(Account::Host, "gpu-01")]);
        assert_eq!(
            of(&[("__name__", "up"), ("instance", "a:9100"), ("job", "node")]),
            [one(Account::NoHost, ""), one(Account::Instance, "a:9100")]
        );
        assert_eq!(
            of(&[("__name__", "up"), ("job", "node")]),
            [one(Account::NoHost, ""), one(Account::Instance, "node")]
        );
        assert_eq!(of(&[("__name__", "up")]), [one(Account::NoHost, "")]);
        assert_eq!(of(&[("__name__", "fabric_job_info"), ("host", "gpu-01")]), [one(Account::Collector, "")]);
    }
}
