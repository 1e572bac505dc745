//! Matches a message of the kernel log against the classes of the catalog, and takes from it what the class names: a device, a
//! code, a process.

use fabriclens_agent_host::discover::is_address;
use fabriclens_catalog::kernel_log::{BOOT_SECONDS, LOG_CLASSES, LogClass, Printer};

/// What a message says. Texts of it are names of devices only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// Position of the row in [`LOG_CLASSES`].
    pub row: usize,
    /// Code, as printed.
    pub code: Option<&'a str>,
    /// PCI address of the device, whole.
    pub pci: Option<String>,
    /// Name of an RDMA device or an interface.
    pub name: Option<&'a str>,
    /// Process.
    pub pid: Option<u32>,
}

impl Found<'_> {
    /// Class of the message.
    pub fn class(&self) -> &'static LogClass {
        &LOG_CLASSES[self.row]
    }
}

/// The class of a message that was printed so long after the start of the kernel, and what it names.
pub fn find(message: &str, micros: u64) -> Option<Found<'_>> {
    let head = Head::of(message);
    let is_at_boot = micros < BOOT_SECONDS * 1_000_000;
    LOG_CLASSES.iter().enumerate().filter(|(_, class)| !(class.normal_at_boot && is_at_boot)).find_map(
        |(row, class)| {
            let text = match class.printer {
                Printer::Driver(drivers) => drivers.contains(&head.printer?).then_some(head.text)?,
                Printer::AnyDriver => head.pci.map(|_| head.text)?,
                Printer::Kernel => message,
            };
            let fields = class.texts.iter().find_map(|pattern| matched(pattern, text))?;
            if !class.codes.is_empty() {
                let code = value(fields.code?)?;
                if !class.codes.iter().any(|(first, last)| (*first..=*last).contains(&code)) {
                    return None;
                }
            }
            let pci = fields.pci.or(head.pci.filter(|_| class.printer != Printer::Kernel));
            let name = fields.netdev.or(head.name.filter(|_| class.printer != Printer::Kernel));
            Some(Found {
                row,
                code: fields.code,
                pci: pci.and_then(whole),
                name,
                pid: fields.pid.and_then(|pid| pid.parse().ok()),
            })
        },
    )
}

/// The prefix by which drivers name themselves and their device.
struct Head<'a> {
    /// Driver or bus.
    printer: Option<&'a str>,
    pci: Option<&'a str>,
    /// RDMA device or interface.
    name: Option<&'a str>,
    /// What follows.
    text: &'a str,
}

impl<'a> Head<'a> {
    /// Splits `driver address: text`, `driver address name: text` and `infiniband name: text`, and drops `function:line:(pid n):`.
    fn of(message: &'a str) -> Self {
        let mut head = Self { printer: None, pci: None, name: None, text: message };
        let words = message.split_once(' ').filter(|(driver, _)| is_name(driver));
        if let Some((driver, rest)) = words {
            let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
            let address = first.strip_suffix(':').unwrap_or(first);
            if is_address(address) {
                (head.printer, head.pci, head.text) = (Some(driver), Some(address), after);
                if !first.ends_with(':') {
                    let named = after.split_once(": ");
                    if let Some((name, text)) = named {
                        // Also `eth0 (unregistering)`, and `(unnamed net_device) (uninitialized)`.
                        let name = name.split(' ').next().filter(|name| is_name(name));
                        (head.name, head.text) = (name, text);
                    }
                }
            } else if let Some(name) = first.strip_suffix(':').filter(|name| driver == "infiniband" && is_name(name)) {
                (head.printer, head.name, head.text) = (Some(driver), Some(name), after);
            }
        }
        if head.printer.is_none()
            && let Some((driver, rest)) = message.split_once(": ").filter(|(driver, _)| *driver == "mlx4_en")
            && let Some((name, text)) = rest.split_once(": ").filter(|(name, _)| is_name(name))
        {
            (head.printer, head.name, head.text) = (Some(driver), Some(name), text);
        }
        if let Some((function, text)) = without_function(head.text) {
            head.text = text;
            // Some versions of the driver print no more than the function.
            if head.printer.is_none() && function.starts_with("mlx5_") {
                head.printer = Some("mlx5_core");
            }
        }
        head
    }
}

/// Splits `function:line:(pid n): text`; some versions of mlx5 leave the process out.
fn without_function(text: &str) -> Option<(&str, &str)> {
    let (function, rest) = text.split_once(':')?;
    let (line, rest) = rest.split_once(':')?;
    let text = match rest.strip_prefix("(pid ") {
        Some(rest) => rest.split_once("): ").filter(|(pid, _)| is_digits(pid))?.1,
        None => rest.strip_prefix(' ').filter(|_| function.starts_with("mlx5_"))?,
    };
    (is_name(function) && is_digits(line)).then_some((function, text))
}

fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 64
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@'))
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.len() <= 10 && word.bytes().all(|b| b.is_ascii_digit())
}

/// Value of a code, decimal or after `0x`.
fn value(code: &str) -> Option<u32> {
    match code.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => code.parse().ok(),
    }
}

/// PCI address with domain and function: `0000:3b:00.0` of `3b:00.0`, `0000:3b:00` or itself.
fn whole(address: &str) -> Option<String> {
    let address = address.to_ascii_lowercase();
    let with_domain = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address };
    let whole = if with_domain.contains('.') { with_domain } else { format!("{with_domain}.0") };
    is_address(&whole).then_some(whole)
}

/// Fields of a pattern, as they stand in the text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Fields<'a> {
    code: Option<&'a str>,
    pci: Option<&'a str>,
    netdev: Option<&'a str>,
    pid: Option<&'a str>,
}

/// Matches the beginning of a text. In time proportional to both lengths: a second `*` never takes back what the first one took.
fn matched<'a>(pattern: &str, text: &'a str) -> Option<Fields<'a>> {
    let (mut pattern_at, mut at, mut fields) = (0, 0, Fields::default());
    // Pattern after the last `*`, and where the text may go on when it does not match here.
    let mut star: Option<(usize, usize)> = None;
    while let Some(next) = pattern.as_bytes().get(pattern_at) {
        if *next == b'*' {
            star = Some((pattern_at + 1, at));
            pattern_at += 1;
            continue;
        }
        let step = match placeholder(&pattern[pattern_at..]) {
            Some((kind, length)) => field(kind, &text[at..]).map(|taken| {
                let taken = &text[at..at + taken];
                match kind {
                    "code" => fields.code = Some(taken),
                    "pci" => fields.pci = Some(taken),
                    "netdev" => fields.netdev = Some(taken),
                    "pid" => fields.pid = Some(taken),
                    _ => {}
                }
                (length, taken.len())
            }),
            None => (text.as_bytes().get(at) == Some(next)).then_some((1, 1)),
        };
        match (step, star) {
            (Some((length, taken)), _) => (pattern_at, at) = (pattern_at + length, at + taken),
            (None, Some((after, from))) if from < text.len() => {
                // Texts of the kernel are ASCII; other bytes are skipped as a whole character.
                let from = from + text[from..].chars().next().map_or(1, char::len_utf8);
                (pattern_at, at, star) = (after, from, Some((after, from)));
            }
            _ => return None,
        }
    }
    Some(fields)
}

/// Placeholder at the beginning of a pattern, and its length there.
fn placeholder(pattern: &str) -> Option<(&str, usize)> {
    let kind = pattern.strip_prefix('<')?.split_once('>')?.0;
    Some((kind, kind.len() + 2))
}

/// Length of the field at the beginning of the text.
fn field(kind: &str, text: &str) -> Option<usize> {
    let run = |text: &str, of: fn(&u8) -> bool| text.bytes().take_while(of).count();
    let length = match kind {
        "code" if text.starts_with("0x") => match run(&text[2..], u8::is_ascii_hexdigit) {
            0 => 0,
            digits => digits + 2,
        },
        "n" | "pid" | "code" => run(text, u8::is_ascii_digit),
        "pci" => run(text, |b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.')),
        "netdev" => run(text, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@')),
        _ => 0,
    };
    // The full stop at the end of a sentence is no part of an address.
    let length = if kind == "pci" { text[..length].trim_end_matches([':', '.']).len() } else { length };
    (1..=16).contains(&length).then_some(length)
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
