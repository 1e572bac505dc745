//! The command-line client: `fabriclens query`, `top`, `jobs`, `incidents`, `report`, `compare`, `topology`,
//! `switches`, `probes`, `audit`. Queries work with any Prometheus-compatible server.

#![forbid(unsafe_code)]

mod answer;
pub mod args;
mod audit;
mod compare;
mod incidents;
mod jobs;
mod layout;
mod print;
mod probes;
mod report;
mod switches;
mod top;
mod topology;
mod topology_path;
mod width;

use fabriclens_base::terminal;
use std::path::Path;
use std::time::Duration;

use fabriclens_core::pem::{certificates, private_key, trusting};
use serde::de::DeserializeOwned;
use ureq::http::Request;
use ureq::http::header::{AUTHORIZATION, HeaderValue};
use ureq::middleware::MiddlewareNext;
use ureq::tls::{ClientCert, TlsConfig};
use ureq::{Agent, SendBody};

use crate::args::{Format, QueryArgs, Server};
use answer::Answer;
pub use audit::audit;
pub use compare::compare;
use fabriclens_core::time;
use fabriclens_core::time::now_ms;
pub use incidents::incidents;
pub use jobs::jobs;
pub use probes::probes;
pub use report::report;
pub use switches::switches;
pub use top::top;
pub use topology::topology;

/// Request timeout, longer than a server's own limit of queries.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Largest answer, bytes.
const ANSWER_BYTES: u64 = 1 << 30;
/// Points of a range query without step.
const POINTS: i64 = 60;

/// The command failed; `Display` names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server is unreachable, or does not speak HTTP.
    #[error("cannot reach {url}: {message}; is the collector running there? (fabriclens serve, or --url)")]
    Connect {
        /// URL of the server.
        url: String,
        /// Cause.
        message: String,
    },
    /// The server refused the request.
    #[error("{0}")]
    Refused(String),
    /// Authentication or authorization failed.
    #[error("{url} refuses: {message}")]
    Denied {
        /// URL of the server.
        url: String,
        /// Message of the server.
        message: String,
    },
    /// The answer is not one of Prometheus' API.
    #[error("{url} did not answer like Prometheus: {message}; check --url")]
    Foreign {
        /// URL of the server.
        url: String,
        /// Beginning of the answer, or its problem.
        message: String,
    },
    /// Invalid value of a flag.
    #[error("--{flag} {value:?} is {problem}")]
    Flag {
        /// Flag.
        flag: &'static str,
        /// Value as given.
        value: String,
        /// Problem.
        problem: String,
    },
    /// The output file cannot be written.
    #[error("cannot write {path}: {source}; give a file in a directory where this user may write")]
    File {
        /// Path.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Both reports are of one run.
    #[error("both are run {run} of job {job}; name another run with --run-a or --run-b")]
    SameRun {
        /// Job ID.
        job: String,
        /// Number of the run.
        run: u32,
    },
    /// The report has another form than this client reads.
    #[error(
        "{url} writes version {version} of reports, and this client reads version {known}; use the client of the server's release"
    )]
    ReportVersion {
        /// URL of the server.
        url: String,
        /// Version of the report.
        version: u32,
        /// Version that is read.
        known: u32,
    },
    /// Standard output is closed.
    #[error("cannot write the answer: {0}")]
    Output(#[from] std::io::Error),
}

/// Runs a query and prints the result.
///
/// # Errors
/// [`ClientError`].
pub fn query(args: &QueryArgs) -> Result<(), ClientError> {
    let (path, form) = request(args)?;
    let body = ask(&args.server, |agent| agent.post(url(&args.server, path)).send_form(pairs(&form)))?;
    let mut out = std::io::stdout().lock();
    if args.format == Format::Json {
        return print_json(&mut out, &body);
    }
    let foreign = |message| ClientError::Foreign { url: args.server.url.clone(), message };
    let answer: Answer = serde_json::from_str(&body).map_err(|e| foreign(e.to_string()))?;
    let text = match args.format {
        Format::Csv => print::csv(&answer),
        Format::Wide => print::people(&answer, usize::MAX),
        _ => print::people(&answer, width::columns()),
    };
    print(&mut out, &text)?;
    for notice in answer.notices() {
        eprintln!("{}", terminal::line(notice));
    }
    Ok(())
}

/// Writes JSON of a server and a line break.
///
/// # Errors
/// [`ClientError::Output`].
fn print_json(out: &mut impl std::io::Write, body: &str) -> Result<(), ClientError> {
    write_all(out, &format!("{}\n", terminal::json(body)))
}

/// Writes text for people to `out`, without characters that act on a terminal; a reader that closed the pipe (`| head`) is no error.
///
/// # Errors
/// [`ClientError::Output`].
pub fn print(out: &mut impl std::io::Write, text: &str) -> Result<(), ClientError> {
    write_all(out, &terminal::lines(text))
}

fn write_all(out: &mut impl std::io::Write, text: &str) -> Result<(), ClientError> {
    match out.write_all(text.as_bytes()) {
        // `| head` closed the pipe.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

type Form = Vec<(&'static str, String)>;

/// Path and parameters of a query.
fn request(args: &QueryArgs) -> Result<(&'static str, Form), ClientError> {
    let query = ("query", args.expression.clone());
    let at = |flag, text: &Option<String>| text.as_ref().map_or_else(|| Ok(now_ms()), |text| time_of(flag, text));
    if args.start.is_none() {
        return Ok(("api/v1/query", vec![query, ("time", seconds(at("time", &args.time)?))]));
    }
    let (start, end) = (at("start", &args.start)?, at("end", &args.end)?);
    let step = match &args.step {
        None => ((end - start) / POINTS).max(1000) / 1000 * 1000,
        Some(text) => {
            let parsed = time::parse_duration(text).map(|d| d.as_millis() as i64).filter(|ms| *ms > 0);
            parsed.ok_or_else(|| ClientError::Flag {
                flag: "step",
                value: text.clone(),
                problem: "not a duration above zero; write for instance 15s".to_owned(),
            })?
        }
    };
    Ok(("api/v1/query_range", vec![query, ("start", seconds(start)), ("end", seconds(end)), ("step", seconds(step))]))
}

/// Parses the time of a flag.
fn time_of(flag: &'static str, text: &str) -> Result<i64, ClientError> {
    moment(text).ok_or_else(|| ClientError::Flag {
        flag,
        value: text.to_owned(),
        problem: "not a time; write Unix seconds, RFC 3339 (2026-01-31T12:00:00Z), or how long ago (-15m)".to_owned(),
    })
}

/// Parses a time of the API, `now`, or a duration ago: `-15m`.
fn moment(text: &str) -> Option<i64> {
    if text == "now" {
        return Some(now_ms());
    }
    let ago = text.strip_prefix('-').and_then(|t| fabriclens_base::duration::parse(t).ok());
    match ago {
        Some(ago) => now_ms().checked_sub(i64::try_from(ago.as_millis()).ok()?),
        None => time::parse_time(text),
    }
}

fn seconds(ms: i64) -> String {
    let mut text = String::new();
    fabriclens_core::json_text::push_time(&mut text, ms);
    text
}

fn url(server: &Server, path: &str) -> String {
    format!("{}/{path}", server.url.trim_end_matches('/'))
}

fn pairs(form: &Form) -> impl Iterator<Item = (&'static str, &str)> {
    form.iter().map(|(k, v)| (*k, v.as_str()))
}

/// Asks for a resource and prints its JSON, or the words that `text` has for it.
fn show<T: DeserializeOwned>(
    server: &Server,
    path: &str,
    form: &Form,
    json: bool,
    text: impl FnOnce(&T) -> String,
) -> Result<(), ClientError> {
    let body = get(server, path, form)?;
    let mut out = std::io::stdout().lock();
    if json {
        return print_json(&mut out, &body);
    }
    print(&mut out, &text(&parse(server, &body)?))
}

/// Body of the answer to a GET.
fn get(server: &Server, path: &str, form: &Form) -> Result<String, ClientError> {
    ask(server, |agent| agent.get(url(server, path)).query_pairs(pairs(form)).call())
}

/// Reads the JSON of an answer.
fn parse<T: DeserializeOwned>(server: &Server, body: &str) -> Result<T, ClientError> {
    serde_json::from_str(body).map_err(|e| ClientError::Foreign { url: server.url.clone(), message: e.to_string() })
}

/// Sends a request and returns the body of a successful answer.
fn ask(
    server: &Server,
    send: impl FnOnce(&Agent) -> Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<String, ClientError> {
    // A server that requires a certificate just closes the connection.
    let wants = server.cert.is_none() && server.url.starts_with("https:");
    let hint = if wants { " (does it require a client certificate? --cert, --key)" } else { "" };
    let connect = |e: ureq::Error| ClientError::Connect { url: server.url.clone(), message: format!("{e}{hint}") };
    let mut response = send(&agent(server)?).map_err(connect)?;
    let status = response.status();
    let body = response.body_mut().with_config().limit(ANSWER_BYTES).read_to_string().map_err(connect)?;
    if status.is_success() {
        return Ok(body);
    }
    let error = serde_json::from_str::<serde_json::Value>(&body).ok();
    match error.as_ref().and_then(|e| e["error"].as_str()) {
        message if matches!(status.as_u16(), 401 | 403) => Err(ClientError::Denied {
            url: server.url.clone(),
            message: message.map_or_else(
                || format!("HTTP {status}; --token-file or FABRICLENS_TOKEN_FILE names a file with a token"),
                str::to_owned,
            ),
        }),
        Some(message) => Err(ClientError::Refused(message.to_owned())),
        None => {
            let start: String = body.lines().next().unwrap_or_default().chars().take(200).collect();
            Err(ClientError::Foreign { url: server.url.clone(), message: format!("HTTP {status} {start}") })
        }
    }
}

fn agent(server: &Server) -> Result<Agent, ClientError> {
    let mut builder = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false);
    builder = builder.tls_config(tls(server)?);
    if let Some(path) = &server.token_file {
        let bad =
            |problem: String| ClientError::Flag { flag: "token-file", value: path.display().to_string(), problem };
        let token = std::fs::read_to_string(path).map_err(|e| bad(format!("not readable: {e}")))?;
        let header = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut header = header.map_err(|_| bad("not a file with one token".to_owned()))?;
        header.set_sensitive(true);
        builder = builder.middleware(move |mut request: Request<SendBody<'_>>, next: MiddlewareNext<'_>| {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
            next.handle(request)
        });
    }
    Ok(builder.build().new_agent())
}

/// TLS trust and client certificate.
fn tls(server: &Server) -> Result<TlsConfig, ClientError> {
    fn of<T>(flag: &'static str, path: &Path, read: fn(&Path) -> Result<T, String>) -> Result<T, ClientError> {
        read(path).map_err(|problem| ClientError::Flag { flag, value: path.display().to_string(), problem })
    }
    let trusted = server.ca.as_deref().map_or_else(|| Ok(TlsConfig::default()), |path| of("ca", path, trusting))?;
    let (Some(cert), Some(key)) = (&server.cert, &server.key) else { return Ok(trusted) };
    let shown = ClientCert::new_with_certs(&of("cert", cert, certificates)?, of("key", key, private_key)?);
    Ok(TlsConfig::builder().root_certs(trusted.root_certs().clone()).client_cert(Some(shown)).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_ago() {
        assert_eq!(moment("1010"), Some(1_010_000));
        assert_eq!(moment("-1.5"), Some(-1500), "Unix seconds before 1970, as in the API");
        let near = |got: Option<i64>, ago: i64| (now_ms() - ago - got.unwrap()).abs() < 5000;
        assert!(near(moment("now"), 0) && near(moment("-15m"), 900_000) && near(moment("-1h30m"), 5_400_000));
        for bad in ["noon", "15m", "--5m", "-", "-999999999999y"] {
            assert_eq!(moment(bad), None, "{bad}");
        }
    }
}
