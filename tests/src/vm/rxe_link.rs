//! A cable is pulled and plugged: the state series follows within 200 ms of the kernel's message.

use super::watched::{Pair, port};
use super::{Lab, Scenario};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-link",
    shows: "a link down and up: state series and event within 200 ms of the kernel's",
    limit: Duration::from_secs(300),
    often: true,
    alone: true,
    run,
};

/// Longest time between the kernel's message and the sample.
const ALLOWED_NS: u64 = 200_000_000;

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start(lab)?;
    for (host, guest) in [("vm1", &pair.one), ("vm2", &pair.two)] {
        guest.sh("setsid /bin/ip -ts monitor link >/tmp/monitor </dev/null 2>&1 & sleep 1")?;
        for (up, state) in [(false, 1.0), (true, 4.0)] {
            let start = guest.now_ns()?;
            // vm1 loses its cable; the interface of vm2 is set down by command.
            if host == "vm1" {
                guest.set_link(up)?;
            } else {
                guest.sh(&format!("ip link set fab0 {}", if up { "up" } else { "down" }))?;
            }
            let selector = port(host, "rxe0", "fabric_port_state", "");
            let seen = lab.wait(&format!("{selector} = {state}"), Duration::from_secs(60), || {
                let points = pair.collector.points(&selector, 60)?;
                Ok(points.into_iter().find(|point| point.0 >= start && point.1 == state).map(|point| point.0))
            })?;
            let kernel = kernel_saw(&guest.sh("cat /tmp/monitor")?, up, start)?;
            // The store has milliseconds, so a sample may appear up to one too early.
            let late = (seen + 1_000_000).saturating_sub(kernel);
            ensure!(late <= ALLOWED_NS, "{selector} became {state} {} ms after the kernel's message", late / 1_000_000);
            lab.say(&format!("{host} {}: sampled {} ms after the kernel's message", word(up), late / 1_000_000));
        }
        if host == "vm1" {
            // Only the agent with rdma-core receives these events.
            for event in ["port_err", "port_active"] {
                let events = port(host, "rxe0", "fabric_port_async_events_total", &format!("event=\"{event}\""));
                let count = pair.settled(lab, &events)?;
                ensure!(count == 1.0, "{events} is {count}, not 1");
            }
        }
    }
    Ok(())
}

fn word(up: bool) -> &'static str {
    if up { "up" } else { "down" }
}

/// Time of the kernel's message that the carrier is `up`: first such line of `ip -ts monitor link` after `start`.
fn kernel_saw(monitor: &str, up: bool, start: u64) -> Result<u64> {
    let found = monitor.lines().find_map(|line| {
        let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
        let carrier = rest.contains("LOWER_UP");
        let at = nanoseconds(stamp)?;
        (rest.contains("fab0") && carrier == up && at + 2_000_000 >= start).then_some(at)
    });
    found.with_context(|| format!("the kernel did not say that the link is {}: {monitor}", word(up)))
}

/// `2026-11-21T10:12:04.123456` (UTC) as nanoseconds since 1970.
fn nanoseconds(stamp: &str) -> Option<u64> {
    let (date, time) = stamp.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    // Days since 1970 of the proleptic Gregorian calendar, with the year starting in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    let mut time = time.split([':', '.']);
    let mut part = || time.next()?.parse::<u64>().ok();
    let (hours, minutes, seconds, micros) = (part()?, part()?, part()?, part()?);
    let seconds = u64::try_from(days).ok()? * 86_400 + hours * 3_600 + minutes * 60 + seconds;
    Some(seconds * 1_000_000_000 + micros * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitor_stamps_parse() {
        assert_eq!(nanoseconds("1970-01-01T00:00:00.000001"), Some(1_000));
        assert_eq!(nanoseconds("2000-02-29T12:00:00.500000"), Some(951_825_600_500_000_000));
        assert_eq!(nanoseconds("2026-11-21T10:05:00.000000"), Some(1_795_255_500_000_000_000));
        assert_eq!(nanoseconds("nonsense"), None);
    }
}
