//! Host lists in Slurm's notation: `gpu[01-04,07],login1`, `rack[1-2]n[1-3]`.

/// Maximum hosts of a list; a longer one is a mistake or an attack.
const MAX_HOSTS: usize = 65_536;
/// Maximum bytes of all names of a list: 64 for each of the most hosts.
const MAX_BYTES: usize = MAX_HOSTS * 64;
/// Longest name, bytes; DNS allows 253.
const MAX_NAME: usize = 255;
/// Most brackets of one name. Slurm's grids have up to three dimensions, written as one bracket each.
const MAX_BRACKETS: usize = 8;

/// Why a host list is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostlistError {
    /// Unbalanced brackets, or an invalid range.
    #[error("{0:?} is not a host list; write it like gpu[01-04,07],login1")]
    Form(String),
    /// More hosts than allowed.
    #[error("the host list has more than {MAX_HOSTS} hosts")]
    Long,
    /// The names are too long in total.
    #[error("the names of the host list have more than {MAX_BYTES} bytes in total")]
    Large,
    /// One name is too long.
    #[error("a name of the host list has more than {MAX_NAME} bytes")]
    Name,
    /// One name has too many brackets.
    #[error("a name of the host list has more than {MAX_BRACKETS} brackets")]
    Brackets,
}

/// The expanded names, within the bounds.
#[derive(Default)]
struct Expanded {
    hosts: Vec<String>,
    bytes: usize,
}

impl Expanded {
    /// Adds a name; fails before a bound is exceeded, so that a short text never takes much memory.
    fn add(&mut self, host: String) -> Result<(), HostlistError> {
        if host.len() > MAX_NAME {
            return Err(HostlistError::Name);
        }
        self.bytes += host.len();
        if self.hosts.len() >= MAX_HOSTS {
            return Err(HostlistError::Long);
        }
        if self.bytes > MAX_BYTES {
            return Err(HostlistError::Large);
        }
        self.hosts.push(host);
        Ok(())
    }
}

/// Expands a list to its hosts, in order.
///
/// # Errors
/// [`HostlistError`] if it is malformed, or exceeds a bound; nothing larger than the bounds is built.
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    let form = || HostlistError::Form(list.chars().take(80).collect());
    let mut found = Expanded::default();
    let parts = split(list).ok_or_else(form)?;
    if parts.len() > MAX_HOSTS {
        return Err(HostlistError::Long);
    }
    for part in parts {
        if part.bytes().filter(|b| *b == b'[').count() > MAX_BRACKETS {
            return Err(HostlistError::Brackets);
        }
        if !part.is_empty() {
            expand_part(part, "", &mut found)?.ok_or_else(form)?;
        }
    }
    Ok(found.hosts)
}

/// Splits at the commas outside of brackets; stops behind the most hosts.
fn split(list: &str) -> Option<Vec<&str>> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' if inside => return None,
            '[' | ']' if inside == (c == '[') => return None,
            '[' | ']' => inside = c == '[',
            ',' if !inside => {
                parts.push(list[from..at].trim());
                from = at + 1;
                if parts.len() > MAX_HOSTS {
                    return Some(parts);
                }
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    (!inside).then_some(parts)
}

/// Expands the first brackets, then the rest recursively; `None` if it is malformed.
fn expand_part(rest: &str, before: &str, found: &mut Expanded) -> Result<Option<()>, HostlistError> {
    let Some((plain, rest)) = rest.split_once('[') else {
        found.add(format!("{before}{rest}"))?;
        return Ok(Some(()));
    };
    if before.len() + plain.len() > MAX_NAME {
        return Err(HostlistError::Name);
    }
    let Some((ranges, rest)) = rest.split_once(']') else { return Ok(None) };
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |t: &str| !t.is_empty() && t.len() < 10 && t.bytes().all(|b| b.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return Ok(None);
        }
        let (Ok(from), Ok(to)) = (first.parse::<u32>(), last.parse::<u32>()) else { return Ok(None) };
        if from > to {
            return Ok(None);
        }
        // The width of the first number applies to all: n[08-10].
        let width = first.len();
        for n in from..=to {
            if expand_part(rest, &format!("{before}{plain}{n:0width$}"), found)?.is_none() {
                return Ok(None);
            }
        }
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_like_scontrol_show_hostnames() {
        let of = |list: &str| expand(list).unwrap().join(" ");
        assert_eq!(of("n1"), "n1");
        assert_eq!(of("n[1-3,7],login1"), "n1 n2 n3 n7 login1");
        assert_eq!(of("gpu[08-10]-ib, x"), "gpu08-ib gpu09-ib gpu10-ib x");
        assert_eq!(of("r[1-2]n[01-02]"), "r1n01 r1n02 r2n01 r2n02");
        assert_eq!((of(""), of("n[099-101]")), (String::new(), "n099 n100 n101".into()));
        assert_eq!(expand("n[1-65536]").unwrap().len(), 65_536);
    }

    #[test]
    fn invalid_and_oversized_lists_are_refused() {
        for bad in ["n[1-3", "n1]", "n[[1]]", "n[a-b]", "n[]", "n[3-1]", "n[1-]", "n[1-99999999999]", "n[-1]"] {
            assert!(matches!(expand(bad), Err(HostlistError::Form(_))), "{bad}: {:?}", expand(bad).map(|h| h.len()));
        }
        for long in ["n[1-999999999]", "n[1-999999]m[1-999999]", "n[1-300]m[1-300]"] {
            assert_eq!(expand(long), Err(HostlistError::Long), "{long}");
        }
    }

    #[test]
    fn bounds_of_names_hold_before_they_are_built() {
        let long = "x".repeat(240);
        assert_eq!(expand(&format!("{long}[1-65536]")), Err(HostlistError::Large));
        assert_eq!(expand(&format!("{}[1-65536]", "x".repeat(256))), Err(HostlistError::Name));
        assert_eq!(expand(&format!("a[1-9]{}", "x".repeat(256))), Err(HostlistError::Name));
        // One bracket more is one frame more on the stack.
        assert_eq!(expand(&"n[1]".repeat(100_000)), Err(HostlistError::Brackets));
        assert_eq!(expand(&"[1]".repeat(MAX_BRACKETS)).unwrap(), ["11111111"]);
    }
}
