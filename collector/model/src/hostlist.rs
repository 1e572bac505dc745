//! Host lists in Slurm's notation: `gpu[01-04,07],login1`, `rack[1-2]n[1-3]`.

/// Maximum hosts of a list; a longer one is a mistake or an attack.
const MAX_HOSTS: usize = 65_536;

/// Why a host list is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostlistError {
    /// Unbalanced brackets, or an invalid range.
    #[error("{0:?} is not a host list; write it like gpu[01-04,07],login1")]
    Form(String),
    /// More hosts than allowed.
    #[error("the host list has more than {MAX_HOSTS} hosts")]
    Long,
}

/// Expands a list to its hosts, in order.
///
/// # Errors
/// [`HostlistError`] if it is malformed or too long.
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    let form = || HostlistError::Form(list.chars().take(80).collect());
    let mut hosts = Vec::new();
    for part in split(list).ok_or_else(form)? {
        if !part.is_empty() {
            expand_part(part, String::new(), &mut hosts).ok_or_else(form)?;
        }
        if hosts.len() > MAX_HOSTS {
            return Err(HostlistError::Long);
        }
    }
    Ok(hosts)
}

/// Splits at the commas outside of brackets.
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
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    (!inside).then_some(parts)
}

/// Expands the first brackets, then the rest recursively.
fn expand_part(rest: &str, before: String, hosts: &mut Vec<String>) -> Option<()> {
    let Some((plain, rest)) = rest.split_once('[') else {
        hosts.push(before + rest);
        return Some(());
    };
    let (ranges, rest) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let digits = |t: &str| !t.is_empty() && t.len() < 10 && t.bytes().all(|b| b.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return None;
        }
        let (from, to): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // The width of the first number applies to all: n[08-10].
        let width = first.len();
        for n in (from..=to).take_while(|_| from <= to) {
            if hosts.len() > MAX_HOSTS {
                return Some(());
            }
            expand_part(rest, format!("{before}{plain}{n:0width$}"), hosts)?;
        }
        if from > to {
            return None;
        }
    }
    Some(())
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
}
