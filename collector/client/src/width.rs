//! How wide the screen is on which an answer will be read.

use std::io::IsTerminal as _;

/// Where there is no terminal: what most editors and mail programs show without breaking lines.
const ELSEWHERE: usize = 100;

/// `COLUMNS` if it is a number above zero, else what the terminal says, else a readable default.
pub(super) fn columns() -> usize {
    let out = std::io::stdout();
    let terminal = || out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
    choose(std::env::var("COLUMNS").ok().as_deref(), || terminal().map(|w| usize::from(w.ws_col)))
}

fn choose(columns: Option<&str>, terminal: impl FnOnce() -> Option<usize>) -> usize {
    let told = columns.and_then(|c| c.trim().parse().ok()).filter(|c| *c > 0);
    told.or_else(|| terminal().filter(|c| *c > 0)).unwrap_or(ELSEWHERE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_beats_terminal_beats_default() {
        assert_eq!(choose(Some("72"), || Some(200)), 72);
        for useless in [None, Some(""), Some("0"), Some("-1"), Some("wide")] {
            assert_eq!(choose(useless, || Some(200)), 200, "{useless:?}");
            // A terminal that does not know says zero.
            assert_eq!(choose(useless, || Some(0)), 100, "{useless:?}");
            assert_eq!(choose(useless, || None), 100, "{useless:?}");
        }
    }
}
