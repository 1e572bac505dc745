//! Messages of the kernel log that name a fault, one row per class: who prints them, how they read, how severe they are.
//!
//! The agent counts records that match (`fabric_kernel_log_events_total`), the collector explains incidents with them, and the
//! table of `docs/kernel-log.md` is made of the same rows. The first row that matches a record counts it, so finer rows stand
//! before coarser ones.
//!
//! A text is matched from the first character of the message, without what the kernel puts before it (`driver address name:`,
//! and `function:line:(pid n):` of mlx5). What follows its end is not looked at. Placeholders:
//!
//! | placeholder | matches |
//! |---|---|
//! | `*` | any characters, as few as possible |
//! | `<n>` | a decimal number |
//! | `<code>` | a decimal number, or a hexadecimal one after `0x`; becomes the label `code` |
//! | `<pci>` | a PCI address; without domain it is of domain 0, without function of function 0 |
//! | `<netdev>` | the name of a network interface |
//! | `<pid>` | a process number, by which the job is found |

mod adapters;
mod amd_gpus;
mod broadcom;
mod cloud_adapters;
mod host;
mod intel;
mod nvidia_adapters;
mod nvidia_gpus;
mod pcie;
mod pensando;

/// How severe the messages of a class are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogSeverity {
    /// Normal on some hosts, or a consequence of something else.
    Note,
    /// Something is wrong, and may pass.
    Warning,
    /// A device lost work, or will.
    Error,
    /// Jobs on the device die: it is of no use until it is reset, by its driver or by people, or replaced.
    Fatal,
}

impl LogSeverity {
    /// Value of the label `severity`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Fatal => "fatal",
        }
    }
}

/// Part of a host that the messages of a class are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSubject {
    /// An adapter: its firmware, hardware or driver.
    Adapter,
    /// A link of the fabric, its cable and modules.
    Link,
    /// The PCIe path of a device.
    Pcie,
    /// A GPU.
    Gpu,
    /// NVLink and its switches.
    Nvlink,
    /// Processors and memory of the host.
    Host,
    /// A process.
    Process,
}

/// Source of a message, which the kernel writes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printer {
    /// One of these drivers or buses, about a device.
    Driver(&'static [&'static str]),
    /// Any driver, about a PCI device.
    AnyDriver,
    /// The message has no such prefix.
    Kernel,
}

/// A class of messages.
#[derive(Clone, Copy, Debug)]
pub struct LogClass {
    /// Value of the label `class`.
    pub name: &'static str,
    /// Severity of all messages of the class.
    pub severity: LogSeverity,
    /// What they are about.
    pub subject: LogSubject,
    /// Who prints them.
    pub printer: Printer,
    /// Texts, any of which matches.
    pub texts: &'static [&'static str],
    /// Codes that belong to the class; any if empty. In ranges, both ends included.
    pub codes: &'static [(u32, u32)],
    /// The message is normal while a host boots, and counts only later.
    pub normal_at_boot: bool,
    /// What happened, as a noun phrase.
    pub meaning: &'static str,
}

const fn row(
    name: &'static str,
    (severity, subject): (LogSeverity, LogSubject),
    printer: Printer,
    texts: &'static [&'static str],
    meaning: &'static str,
) -> LogClass {
    LogClass { name, severity, subject, printer, texts, codes: &[], normal_at_boot: false, meaning }
}

impl LogClass {
    const fn of_codes(self, codes: &'static [(u32, u32)]) -> Self {
        Self { codes, ..self }
    }

    const fn after_boot(self) -> Self {
        Self { normal_at_boot: true, ..self }
    }

    /// The class with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        LOG_CLASSES.iter().find(|class| class.name == name)
    }
}

/// Classes by subject. The order counts: those of a vendor stand before those of all adapters.
const TABLES: [&[LogClass]; 10] = [
    nvidia_adapters::CLASSES,
    broadcom::CLASSES,
    pensando::CLASSES,
    intel::CLASSES,
    cloud_adapters::CLASSES,
    adapters::CLASSES,
    pcie::CLASSES,
    nvidia_gpus::CLASSES,
    amd_gpus::CLASSES,
    host::CLASSES,
];

/// All classes, in the order in which they are tried.
pub static LOG_CLASSES: &[LogClass] = &concatenate::<{ count(&TABLES) }>(&TABLES);

const fn count(tables: &[&[LogClass]]) -> usize {
    let (mut sum, mut table) = (0, 0);
    while table < tables.len() {
        sum += tables[table].len();
        table += 1;
    }
    sum
}

/// `COUNT` is the number of all rows.
const fn concatenate<const COUNT: usize>(tables: &[&[LogClass]]) -> [LogClass; COUNT] {
    let mut all = [tables[0][0]; COUNT];
    let (mut at, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            all[at] = tables[table][row];
            (at, row) = (at + 1, row + 1);
        }
        table += 1;
    }
    all
}

/// Longest interval after the start of the kernel in which classes that are normal at boot do not count, seconds.
pub const BOOT_SECONDS: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_class_agree() {
        for class in LOG_CLASSES {
            let first = LogClass::by_name(class.name).unwrap();
            let of = |class: &LogClass| (class.severity, class.subject, class.meaning);
            assert_eq!(of(class), of(first), "{}: rows of one class differ", class.name);
            assert!(!class.texts.is_empty() && class.texts.iter().all(|text| !text.is_empty()), "{}", class.name);
            let has_code = class.texts.iter().all(|text| text.contains("<code>"));
            assert!(class.codes.is_empty() || has_code, "{}: codes without <code>", class.name);
        }
    }
}
