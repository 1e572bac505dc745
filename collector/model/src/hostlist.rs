//! Slurm's host lists: `gpu[01-04,07],login1`, `rack[1-2]n[1-3]`.

/// No list of a machine is longer; a longer one is a mistake or an attack.
const MOST: usize = 65_536;

/// Why a list is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HostlistError {
    /// Brackets that do not match, or a range that is none.
    #[error("{0:?} is no host list; it is written like gpu[01-04,07],login1")]
    Form(String),
    /// Too many.
    #[error("a host list of more than {MOST} hosts")]
    Long,
}

/// The hosts of a list, in its order.
///
/// # Errors
/// [`HostlistError`].
pub fn expand(list: &str) -> Result<Vec<String>, HostlistError> {
    let form = || HostlistError::Form(list.chars().take(80).collect());
    let mut hosts = Vec::new();
    for part in split(list).ok_or_else(form)? {
        if !part.is_empty() {
            one(part, String::new(), &mut hosts).ok_or_else(form)?;
        }
        if hosts.len() > MOST {
            return Err(HostlistError::Long);
        }
    }
    Ok(hosts)
}

/// At the commas that are in no brackets.
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

/// What is before the first brackets, each of what is in them, and the rest likewise.
fn one(rest: &str, before: String, hosts: &mut Vec<String>) -> Option<()> {
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
        // The width of the first is that of all: n[08-10].
        let width = first.len();
        for n in (from..=to).take_while(|_| from <= to) {
            if hosts.len() > MOST {
                return Some(());
            }
            one(rest, format!("{before}{plain}{n:0width$}"), hosts)?;
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
    fn lists_are_what_scontrol_show_hostnames_prints() {
        let of = |list: &str| expand(list).unwrap().join(" ");
        assert_eq!(of("n1"), "n1");
        assert_eq!(of("n[1-3,7],login1"), "n1 n2 n3 n7 login1");
        assert_eq!(of("gpu[08-10]-ib, x"), "gpu08-ib gpu09-ib gpu10-ib x");
        assert_eq!(of("r[1-2]n[01-02]"), "r1n01 r1n02 r2n01 r2n02");
        assert_eq!((of(""), of("n[099-101]")), (String::new(), "n099 n100 n101".into()));
        assert_eq!(expand("n[1-65536]").unwrap().len(), 65_536);
    }

    #[test]
    fn what_is_no_list_is_refused_and_never_fills_memory() {
        for bad in ["n[1-3", "n1]", "n[[1]]", "n[a-b]", "n[]", "n[3-1]", "n[1-]", "n[1-99999999999]", "n[-1]"] {
            assert!(matches!(expand(bad), Err(HostlistError::Form(_))), "{bad}: {:?}", expand(bad).map(|h| h.len()));
        }
        for long in ["n[1-999999999]", "n[1-999999]m[1-999999]", "n[1-300]m[1-300]"] {
            assert_eq!(expand(long), Err(HostlistError::Long), "{long}");
        }
    }
}
