//! Faults that the kernel log of a host names, beside an incident at the same place and time: firmware that died, a PCIe error, a
//! process that was killed. They explain incidents, and open none.

use fabriclens_base::host_name::is_same;
use fabriclens_catalog::kernel_log::{LogClass, LogSeverity, LogSubject};
use fabriclens_core::time::format_time;
use fabriclens_correlate::{Incident, IncidentKind, Location};
use serde::{Deserialize, Serialize};

/// An event this long before an incident, or less, is told with it, ms.
pub const BEFORE_MS: i64 = 600_000;

/// Messages of one class about one device, as the agent of a host counted them.
#[derive(Clone, Debug)]
pub struct KernelLogCount {
    /// Host.
    pub node: String,
    /// RDMA device or interface; empty if the message names none.
    pub device: String,
    /// PCI address; empty if the message names none.
    pub pci: String,
    /// Class.
    pub class: &'static LogClass,
    /// Number that the message holds; empty if it holds none.
    pub code: String,
    /// Job of the process that the message names; empty if there is none.
    pub job: String,
    /// Times at which the count grew, Unix ms, in order.
    pub grew_ms: Vec<i64>,
}

/// An event of the kernel log at an incident.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// Host.
    pub node: String,
    /// RDMA device or interface; empty if the message names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// PCI address; empty if the message names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pci_address: String,
    /// Class of the message.
    pub class: String,
    /// `fatal`, `error`, `warning` or `note`.
    pub severity: String,
    /// What happened, for people.
    pub title: String,
    /// Number that the message holds; empty if it holds none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Job of the process that the message names; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// Time of the first such message at the incident, Unix ms.
    pub at_ms: i64,
    /// The message is about what the incident is about, so that it may be the reason.
    pub may_be_reason: bool,
}

impl KernelEvent {
    /// One sentence for people, or two.
    pub fn words(&self) -> String {
        let Self { node, device, pci_address, title, class, code, job, .. } = self;
        let device = [device.as_str(), pci_address].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        let device = device.join(" ");
        let of = if device.is_empty() { String::new() } else { format!(" {device}") };
        let code = if code.is_empty() { String::new() } else { format!(" {code}") };
        let job = if job.is_empty() { String::new() } else { format!(", of job {job}") };
        let reason = if self.may_be_reason { " This may be the reason." } else { "" };
        format!("Kernel log of {node}{of} at {}: {title}{job} ({class}{code}).{reason}", format_time(self.at_ms))
    }

    /// Whether it is the same event, at whatever time.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let of = |event: &Self| {
            let Self { node, device, pci_address, class, code, job, .. } = event.clone();
            (node, device, pci_address, class, code, job)
        };
        of(self) == of(other)
    }
}

impl KernelLogCount {
    /// The event at an incident, if it belongs to its place and time. Notes are told only where they are about the same thing.
    pub(crate) fn at(&self, incident: &Incident) -> Option<KernelEvent> {
        let is_related = is_related(incident.kind, self.class.subject);
        let is_note = self.class.severity == LogSeverity::Note;
        if (is_note && !is_related) || !self.is_at(&incident.root) {
            return None;
        }
        let begin_ms = incident.start_ns / 1_000_000 - BEFORE_MS;
        let at_ms = *self.grew_ms.iter().find(|at| **at >= begin_ms)?;
        Some(KernelEvent {
            node: self.node.clone(),
            device: self.device.clone(),
            pci_address: self.pci.clone(),
            class: self.class.name.to_owned(),
            severity: self.class.severity.name().to_owned(),
            title: self.class.meaning.to_owned(),
            code: self.code.clone(),
            job: self.job.clone(),
            at_ms,
            may_be_reason: is_related && !is_note,
        })
    }

    /// Whether it concerns a place. What names no device of the fabric, such as a GPU or the memory, concerns all ports of its host.
    fn is_at(&self, root: &Location) -> bool {
        let of_device = |node: &str, port: &str| {
            is_same(node, &self.node) && port.split('/').next().is_some_and(|device| device == self.device)
        };
        match root {
            Location::Port { node, port } => {
                of_device(node, port) || (self.device.is_empty() && is_same(node, &self.node))
            }
            Location::Link { a, a_port, b, b_port } => of_device(a, a_port) || of_device(b, b_port),
            Location::Host { node } => is_same(node, &self.node),
            Location::Job { job, .. } => !self.job.is_empty() && *job == self.job,
            Location::Switch { .. } | Location::Fabric => false,
        }
    }
}

/// Whether messages about a subject may give the reason of an incident of this kind.
fn is_related(kind: IncidentKind, subject: LogSubject) -> bool {
    use LogSubject::{Adapter, Gpu, Host, Link, Nvlink, Pcie, Process};
    let subjects: &[LogSubject] = match kind {
        IncidentKind::LinkDown
        | IncidentKind::LinkFlap
        | IncidentKind::LossyLink
        | IncidentKind::DegradedLink
        | IncidentKind::OpticsDegraded => &[Link, Adapter, Pcie],
        IncidentKind::PcieBottleneck => &[Pcie],
        IncidentKind::SlowReceiver => &[Pcie, Adapter, Host, Gpu],
        IncidentKind::PfcStorm | IncidentKind::CreditStall => &[Adapter, Pcie, Host, Gpu],
        IncidentKind::TransportErrors => &[Adapter, Link, Pcie],
        IncidentKind::StragglerRail => &[Adapter, Link, Pcie, Gpu, Nvlink, Host, Process],
        IncidentKind::BusyHost => &[Host, Process],
        IncidentKind::StuckCollective | IncidentKind::ApplicationStraggler => {
            &[Process, Gpu, Nvlink, Host, Pcie, Adapter]
        }
        IncidentKind::TcpFallback => &[Adapter],
        IncidentKind::Incast
        | IncidentKind::UplinkCongestion
        | IncidentKind::EcmpCollision
        | IncidentKind::EcnMisconfigured
        | IncidentKind::NoisyNeighbour
        | IncidentKind::FabricCongestion => &[],
    };
    subjects.contains(&subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{S, incident};

    const START_MS: i64 = 10_000_000;

    fn count(class: &str, device: &str, grew_ms: &[i64]) -> KernelLogCount {
        KernelLogCount {
            node: "h3".into(),
            device: device.into(),
            pci: String::new(),
            class: LogClass::by_name(class).unwrap(),
            code: String::new(),
            job: String::new(),
            grew_ms: grew_ms.to_vec(),
        }
    }

    fn at(kind: IncidentKind, root: Location) -> Incident {
        Incident { kind, root, start_ns: START_MS / 1000 * S, ..incident("a") }
    }

    fn port(port: &str) -> Location {
        Location::Port { node: "h3".into(), port: port.into() }
    }

    #[test]
    fn events_are_of_the_place_and_time() {
        let slow = |root: Location| at(IncidentKind::SlowReceiver, root);
        let told =
            |class: &str, device: &str, root: Location| count(class, device, &[START_MS]).at(&slow(root)).is_some();
        assert!(told("mlx5_fatal_error", "mlx5_0", port("mlx5_0/1")));
        assert!(!told("mlx5_fatal_error", "mlx5_1", port("mlx5_0/1")), "another adapter of the host");
        assert!(told("gpu_lost", "", port("mlx5_0/1")), "what is no adapter concerns the host");
        assert!(told("mlx5_fatal_error", "mlx5_1", Location::Host { node: "h3".into() }));
        assert!(!told("mlx5_fatal_error", "mlx5_1", Location::Host { node: "h4".into() }));
        assert!(!told("gpu_lost", "", Location::Switch { node: "h3".into() }));
        let [a, b] = ["leaf", "h3"].map(String::from);
        let link = Location::Link { a, a_port: "swp1".into(), b, b_port: "mlx5_0/1".into() };
        assert!(told("mlx5_fatal_error", "mlx5_0", link.clone()));
        assert!(!told("gpu_lost", "", link), "a GPU is no end of a link");
        let of_job = KernelLogCount { job: "7".into(), ..count("out_of_memory", "", &[START_MS]) };
        let job = |job: &str| Location::Job { job: job.into() };
        assert!(of_job.at(&slow(job("7"))).is_some() && of_job.at(&slow(job("8"))).is_none());

        let when = |grew: &[i64]| count("gpu_lost", "", grew).at(&slow(port("mlx5_0/1"))).map(|event| event.at_ms);
        assert_eq!(when(&[START_MS - BEFORE_MS - 1]), None);
        assert_eq!(when(&[START_MS - BEFORE_MS - 1, START_MS - 5, START_MS + 9]), Some(START_MS - 5));
        assert_eq!(when(&[START_MS + 3_600_000]), Some(START_MS + 3_600_000), "while it is open");
    }

    #[test]
    fn reason_is_of_the_same_subject_and_notes_only_accompany() {
        let told = |class: &str, kind: IncidentKind| {
            count(class, "", &[START_MS]).at(&at(kind, port("mlx5_0/1"))).map(|event| event.may_be_reason)
        };
        assert_eq!(told("module_error", IncidentKind::LinkDown), Some(true));
        assert_eq!(told("link_lost", IncidentKind::LinkDown), Some(false), "it says the same");
        assert_eq!(told("link_lost", IncidentKind::SlowReceiver), None);
        assert_eq!(told("pcie_uncorrected", IncidentKind::PcieBottleneck), Some(true));
        assert_eq!(told("out_of_memory", IncidentKind::StragglerRail), Some(true));
        assert_eq!(told("out_of_memory", IncidentKind::Incast), Some(false));
        assert_eq!(told("mlx5_access_refused", IncidentKind::Incast), None);
    }

    #[test]
    fn words_name_device_time_and_class() {
        let event = KernelLogCount {
            pci: "0000:3b:00.0".into(),
            code: "3".into(),
            ..count("mlx5_fatal_error", "mlx5_0", &[START_MS])
        };
        let words = event.at(&at(IncidentKind::SlowReceiver, port("mlx5_0/1"))).unwrap().words();
        let expected = "Kernel log of h3 mlx5_0 0000:3b:00.0 at 1970-01-01T02:46:40.000Z: fatal error of the adapter, or a recovery \
                        from one that failed (mlx5_fatal_error 3). This may be the reason.";
        assert_eq!(words, expected);
    }
}
