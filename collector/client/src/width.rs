//! Width of the screen.

use std::io::IsTerminal as _;

/// Default without a terminal: most editors and mail programs show this many columns without wrapping.
const DEFAULT_COLUMNS: usize = 100;

/// `COLUMNS` if it is above zero, else the width of the terminal, else a default.
pub(super) fn columns() -> usize {
    let out = std::io::stdout();
    let terminal = || out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
    choose(std::env::var("COLUMNS").ok().as_deref(), || terminal().map(|w| usize::from(w.ws_col)))
}

fn choose(columns: Option<&str>, terminal: impl FnOnce() -> Option<usize>) -> usize {
    let requested = columns.and_then(|c| c.trim().parse().ok()).filter(|c| *c > 0);
    requested.or_else(|| terminal().filter(|c| *c > 0)).unwrap_or(DEFAULT_COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_then_terminal_then_default() {
        assert_eq!(choose(Some("72"), || Some(200)), 72);
        for useless in [None, Some(""), Some("0"), Some("-1"), Some("wide")] {
            assert_eq!(choose(useless, || Some(200)), 200, "{useless:?}");
            // A terminal that does not know its size reports zero.
            assert_eq!(choose(useless, || Some(0)), 100, "{useless:?}");
            assert_eq!(choose(useless, || None), 100, "{useless:?}");
        }
    }
}
