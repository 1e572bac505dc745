//! `fabriclens backtest`: runs the detectors over recordings, without a collector.

use fabriclens_correlate::recording::{ReadAs, Recording};
use fabriclens_correlate::{Incident, Severity};

use crate::cli::{BacktestArgs, PortsOf, Verdicts};
use fabriclens_client as client;
use fabriclens_config::thresholds;
use fabriclens_core::time::format_time;
use fabriclens_incidents::root_text;

/// The back-test failed.
#[derive(Debug, thiserror::Error)]
pub enum BacktestError {
    /// A recording cannot be read or evaluated.
    #[error("{dir}: {error}")]
    Recording {
        /// Directory of the recording.
        dir: String,
        /// Cause.
        error: fabriclens_correlate::BacktestError,
    },
    /// Invalid threshold.
    #[error(transparent)]
    Threshold(#[from] thresholds::ThresholdError),
    /// Standard output is closed.
    #[error(transparent)]
    Print(#[from] client::ClientError),
}

/// Evaluates all recordings and prints the incidents.
///
/// # Errors
/// [`BacktestError`]; no verdict is printed.
pub fn run(args: &BacktestArgs) -> Result<(), BacktestError> {
    let how = ReadAs { stretch: i64::from(args.stretch), hosts_only: args.ports == PortsOf::Hosts };
    let overrides = thresholds::from_flags(&args.threshold)?;
    let mut incidents = Vec::new();
    for dir in &args.dirs {
        let found = Recording::open(dir, how)
            .map_err(fabriclens_correlate::BacktestError::from)
            .and_then(|recording| fabriclens_correlate::backtest(recording, overrides.clone()));
        incidents.extend(found.map_err(|error| BacktestError::Recording { dir: dir.display().to_string(), error })?);
    }
    let (observations, incidents): (Vec<Incident>, Vec<Incident>) =
        incidents.into_iter().partition(|incident| incident.severity == Severity::Info);
    let text = match args.format {
        Verdicts::Json => {
            format!("{}\n", serde_json::json!({ "incidents": incidents, "observations": observations }))
        }
        Verdicts::Text => {
            let calm = incidents.is_empty().then(|| "Nothing is wrong.\n".to_owned());
            let all = incidents.iter().map(|i| format!("{}\n", text(i)));
            let seen = observations.iter().map(|i| format!("Not certain enough to page: {}\n", text(i)));
            calm.into_iter().chain(all).chain(seen).collect()
        }
    };
    Ok(client::print(&mut std::io::stdout().lock(), &text)?)
}

/// Formats an incident for people.
fn text(incident: &Incident) -> String {
    let kind = serde_json::to_value(incident.kind).ok().and_then(|v| v.as_str().map(|s| s.replace('_', " ")));
    let time = |ns: i64| format_time(ns / 1_000_000);
    let end = incident.end_ns.map_or_else(|| "still open".to_owned(), |ns| format!("until {}", time(ns)));
    let list = |jobs: &[String], none: &str| if jobs.is_empty() { none.to_owned() } else { jobs.join(", ") };
    format!(
        "{} at {} ({:.0} % sure)\n  since {}, seen {}, {end}\n  {}\n  caused by {}; suffering: {}\n  {}\n",
        kind.unwrap_or_default(),
        root_text(&incident.root),
        incident.confidence * 100.0,
        time(incident.start_ns),
        time(incident.detected_ns),
        incident.explanation,
        list(&incident.culprit_jobs, "no job"),
        list(&incident.victim_jobs, "no job"),
        incident.action
    )
}
