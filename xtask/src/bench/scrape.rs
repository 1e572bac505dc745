//! Fetches `/metrics` and counts series and counters in it.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The text at `url`.
pub fn scrape(url: &str) -> Result<String> {
    Ok(ureq::get(url).call().with_context(|| format!("scrape {url}"))?.body_mut().read_to_string()?)
}

/// Waits until `url` answers.
pub fn wait_for(url: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(15);
    while scrape(url).is_err() {
        if Instant::now() > deadline {
            bail!("{url} does not answer");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Number of node_exporter series that were read from the host.
pub fn node_exporter_series(text: &str) -> usize {
    text.lines().filter(|l| l.starts_with("node_") && !l.starts_with("node_scrape_")).count()
}

/// Counters per read and number of reads, by source of the agent.
pub type Sources = BTreeMap<String, (f64, f64)>;

/// Reads the agent's sources from its self-metrics.
pub fn sources(text: &str) -> Sources {
    let mut found = Sources::new();
    for line in text.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let Some((name, labels)) = series.split_once('{') else { continue };
        match name {
            "fabriclens_agent_sampler_counters" => found.entry(labels.to_owned()).or_default().0 = value,
            "fabriclens_agent_sampler_reads_total" => found.entry(labels.to_owned()).or_default().1 = value,
            _ => {}
        }
    }
    found
}

/// Seconds spent reading, by sampler of the agent.
pub type Busy = BTreeMap<String, f64>;

/// Reads what samplers cost from the agent's self-metrics.
pub fn busy(text: &str) -> Busy {
    let mut found = Busy::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("fabriclens_agent_sampler_busy_seconds_total{") else { continue };
        let Some((labels, value)) = rest.rsplit_once(' ') else { continue };
        let sampler = labels.split_once("sampler=\"").and_then(|(_, rest)| rest.split_once('"'));
        if let (Some((sampler, _)), Ok(seconds)) = (sampler, value.parse::<f64>()) {
            *found.entry(sampler.to_owned()).or_default() += seconds;
        }
    }
    found
}

/// Counters read per second between two scrapes. Congestion samples read a part of a source several times a second; each
/// source counts at most once a second.
pub fn counters_per_second(before: &Sources, after: &Sources, seconds: f64) -> f64 {
    let per_source = after.iter().map(|(source, (counters, reads))| {
        let had = before.get(source).map_or(0.0, |(_, reads)| *reads);
        counters * ((reads - had) / seconds).min(1.0)
    });
    per_source.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_counts_at_most_once_a_second() {
        let text = |reads: [u32; 2]| {
            format!(
                "# TYPE x counter\nfabriclens_agent_sampler_counters{{sampler=\"a\",target=\"h\"}} 30\n\
                 fabriclens_agent_sampler_reads_total{{sampler=\"a\",target=\"h\"}} {}\n\
                 fabriclens_agent_sampler_counters{{sampler=\"b\",target=\"h\"}} 20\n\
                 fabriclens_agent_sampler_reads_total{{sampler=\"b\",target=\"h\"}} {}\n",
                reads[0], reads[1]
            )
        };
        let (before, after) = (sources(&text([100, 1])), sources(&text([200, 6])));
        assert_eq!(counters_per_second(&before, &after, 10.0), 30.0 + 10.0);
    }

    #[test]
    fn samplers_are_summed_over_their_targets() {
        let line = |sampler, target, value| {
            format!(
                "fabriclens_agent_sampler_busy_seconds_total{{sampler=\"{sampler}\",target=\"{target}\"}} {value}\n"
            )
        };
        let text = [line("a", "x", "0.25"), line("b", "x", "1"), line("a", "y", "0.5"), "other 1\n".into()].concat();
        assert_eq!(busy(&text), Busy::from([("a".into(), 0.75), ("b".into(), 1.0)]));
    }

    #[test]
    fn self_metrics_of_node_exporter_do_not_count() {
        assert_eq!(node_exporter_series("# HELP a b\nnode_infiniband_x{a=\"b\"} 1\nnode_scrape_y 1\ngo_z 1\n"), 1);
    }
}
