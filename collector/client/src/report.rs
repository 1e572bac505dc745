//! `fabriclens report`: writes the communication report of a job to a file or the terminal.

use std::path::Path;

use super::{ClientError, ask, print, print_json, url};
use crate::args::{ReportArgs, ReportFormat};

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn report(args: &ReportArgs) -> Result<(), ClientError> {
    let path = format!("api/v1/jobs/{}/report", segment(&args.job));
    let run = args.run.map(|run| run.to_string());
    let all = [("format", Some(format(args))), ("cluster", args.cluster.as_deref()), ("run", run.as_deref())];
    let form: Vec<(&str, &str)> = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let body = ask(&args.server, |agent| agent.get(url(&args.server, &path)).query_pairs(form).call())?;
    let Some(path) = &args.output else {
        let mut out = std::io::stdout().lock();
        return if format(args) == "json" { print_json(&mut out, &body) } else { print(&mut out, &body) };
    };
    std::fs::write(path, body).map_err(|source| ClientError::File { path: path.display().to_string(), source })
}

/// Requested format, or that of the file's extension.
fn format(args: &ReportArgs) -> &'static str {
    let ending = args.output.as_deref().and_then(Path::extension).and_then(|e| e.to_str()).unwrap_or_default();
    match (args.format, ending) {
        (Some(ReportFormat::Html), _) | (None, "html" | "htm") => "html",
        (Some(ReportFormat::Json), _) | (None, "json") => "json",
        (Some(ReportFormat::Md), _) | (None, _) => "md",
    }
}

/// Encodes a string as one segment of a path, since job IDs may contain anything.
pub(super) fn segment(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let byte = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    // Dots alone would mean another path.
    if text.bytes().all(|b| b == b'.') { "%2E".repeat(text.len()) } else { text.bytes().map(byte).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_one_path_segment() {
        assert_eq!(segment("4711"), "4711");
        assert_eq!(segment("ml/bert 4710+1?#ü"), "ml%2Fbert%204710%2B1%3F%23%C3%BC");
        assert_eq!(segment(".."), "%2E%2E");
    }
}
