//! A saturated counter: its series must be flagged and end, so that it never reads as "no errors".

use super::watched::{Hca, INFINIBAND, port};
use super::{Lab, Scenario};
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "hca-saturation",
    shows: "a saturated counter is a gap and a flag, not a rate of zero; a reset is no spike",
    limit: Duration::from_secs(300),
    often: true,
    alone: false,
    run,
};

fn run(lab: &Lab) -> Result<()> {
    // On Ethernet the agent does not read link errors from these saturating counters.
    let hca = Hca::start_as(lab, INFINIBAND)?;
    let errors = port("hca1", "mlx5_0", "fabric_link_symbol_errors_total", "");
    hca.drive("mlx5_0 set symbol_error 65000")?;
    let before = hca.settled(lab, &errors)?;
    ensure!(before == 65_000.0, "symbol errors are {before}, not 65000");
    hca.drive("mlx5_0 saturate symbol_error")?;
    let flag = port("hca1", "mlx5_0", "fabric_port_counter_saturated", "");
    let flags = lab.wait(&flag, Duration::from_secs(60), || {
        let series = hca.collector.query(&format!("{flag} == 1"))?;
        Ok((!series.is_empty()).then_some(series))
    })?;
    lab.say(&format!("flagged: {:?}", flags[0].labels));
    ensure!(flags.len() == 1, "one counter is saturated, {} are flagged: {flags:?}", flags.len());
    let metric = flags[0].labels.get("metric").map_or("", String::as_str);
    ensure!(metric.contains("symbol_errors") || metric.contains("symbol.errors"), "the flag names {metric}");
    lab.wait("the saturated series to end", Duration::from_secs(60), || {
        Ok(hca.collector.query(&errors)?.is_empty().then_some(()))
    })?;

    // A reset as by perfquery -R: the series continues without a jump of its rate.
    hca.drive("mlx5_0 set symbol_error 3")?;
    ensure!(hca.settled(lab, &errors)? == 3.0, "symbol errors after a reset");
    // Absence has no condition: a jump would show in these samples.
    std::thread::sleep(Duration::from_secs(3));
    let highest = hca.collector.value(&format!("max_over_time(rate({errors}[5s])[20s:1s])"))?.unwrap_or(0.0);
    ensure!(highest < 1_000_000.0, "a reset became a rate of {highest}");
    Ok(())
}
