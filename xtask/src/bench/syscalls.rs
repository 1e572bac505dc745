//! Counts the system calls of a running process with strace. Called after the measurement: tracing slows the process down.

use anyhow::Result;
use std::process::{Command, Stdio};
use std::time::Duration;

/// System calls per second.
pub struct Calls {
    /// Total.
    pub per_second: f64,
    /// The most frequent, by name.
    pub most: Vec<(String, f64)>,
}

/// Counts for `seconds` and calls `each_second` in each of them; none if strace may not trace here.
pub fn count(pid: u32, seconds: u64, each_second: &mut dyn FnMut() -> Result<()>) -> Result<Option<Calls>> {
    let pid = pid.to_string();
    let child = Command::new("timeout")
        .args(["-s", "INT", &seconds.to_string(), "strace", "-f", "-c", "-S", "calls", "-p", &pid])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_millis(900));
        each_second()?;
    }
    Ok(parse(&String::from_utf8_lossy(&child.wait_with_output()?.stderr), seconds as f64))
}

/// `% time  seconds  usecs/call  calls  [errors]  syscall`, and a last line `total`.
fn parse(text: &str, seconds: f64) -> Option<Calls> {
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let calls = words.get(3)?.parse::<f64>().ok()?;
        Some(((*words.last()?).to_owned(), calls / seconds))
    });
    let (total, mut most): (Vec<_>, Vec<_>) = rows.partition(|(name, _)| name == "total");
    most.truncate(6);
    Some(Calls { per_second: total.first()?.1, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_parse_with_and_without_errors() {
        let text = "strace: Process 7 attached with 2 threads\n\
            % time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n \
            30.00    0.000300           1       300           pread64\n \
            70.00    0.000700          70        10         2 futex\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.001000           3       310         2 total\n";
        let calls = parse(text, 10.0).unwrap();
        assert_eq!(calls.per_second, 31.0);
        assert_eq!(calls.most, [("pread64".to_owned(), 30.0), ("futex".to_owned(), 1.0)]);
        assert!(parse("strace: attach: Operation not permitted\n", 1.0).is_none());
    }
}
