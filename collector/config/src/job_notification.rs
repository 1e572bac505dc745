//! Checks `[[job_notification]]`: receivers of the result of each job when it ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::endpoint::{Endpoint, check_endpoint, rename_key};
use super::template::Template;
use super::value::{check_name, time, unique, wrong};

/// Variables of templates and of URLs.
pub const JOB_VARIABLES: &[&str] =
    &["id", "cluster", "run", "user", "name", "hosts", "run_time", "url", "cost", "cause", "earlier", "key"];
/// Most receivers.
const MOST: usize = 16;
/// Default time limit of a request or a program.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time limit: a receiver handles one job after the other.
const LONGEST: Duration = Duration::from_secs(600);
/// Default run time from which a job is worth a message.
const MIN_RUN_TIME: Duration = Duration::from_secs(600);
/// Default time between the end of a job and its report; longer than `verdicts.late` by default.
const DELAY: Duration = Duration::from_secs(180);
/// Longest such time: ends further back are not told.
const LONGEST_DELAY: Duration = Duration::from_secs(12 * 3600);
/// Message of programs without a template.
const MESSAGE: &str = "{cost}\n{cause}\n{earlier}\n{url}\n";

/// One `[[job_notification]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNotification {
    /// Name in metrics and in the delivery state.
    pub name: String,
    /// Receiver.
    pub target: JobNotificationTarget,
    /// Shorter jobs are not told.
    pub min_run_time: Duration,
    /// Whether only jobs are told that the network cost a noticeable part of their time.
    pub only_lost: bool,
    /// Time between the end of a job and its report.
    pub delay: Duration,
    /// Text of the message, or body of the request; `None`: the webhook's versioned JSON.
    pub template: Option<Template>,
}

/// Where a notification goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobNotificationTarget {
    /// POST of JSON.
    Webhook {
        /// Endpoint, with the URL as configured.
        endpoint: Endpoint,
        /// URL, whose path and query may have variables.
        url: Template,
    },
    /// A program with the message at its standard input.
    Program {
        /// Absolute path.
        path: PathBuf,
        /// Time limit; it is killed then.
        timeout: Duration,
    },
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawJobNotification {
    name: Option<String>,
    url: Option<String>,
    program: Option<String>,
    only: Option<String>,
    min_run_time: Option<String>,
    delay: Option<String>,
    template: Option<String>,
    username: Option<String>,
    password_file: Option<String>,
    bearer_token_file: Option<String>,
    ca: Option<String>,
    headers: BTreeMap<String, String>,
    timeout: Option<String>,
}

pub(super) fn check(raw: Vec<RawJobNotification>) -> Result<Vec<JobNotification>, ConfigError> {
    if raw.len() > MOST {
        return wrong("job_notification.name", format!("at most {MOST} receivers"));
    }
    unique("job_notification.name", raw.into_iter().map(one), |receiver| &receiver.name)
}

fn one(raw: RawJobNotification) -> Result<JobNotification, ConfigError> {
    let name = raw.name.unwrap_or_default();
    check_name("job_notification.name", &name)?;
    let mut timeout = TIMEOUT;
    time(&mut timeout, raw.timeout, "job_notification.timeout")?;
    if timeout.is_zero() || timeout > LONGEST {
        return wrong("job_notification.timeout", "longer than 0s, and at most 10m");
    }
    let (mut min_run_time, mut delay) = (MIN_RUN_TIME, DELAY);
    time(&mut min_run_time, raw.min_run_time, "job_notification.min_run_time")?;
    time(&mut delay, raw.delay, "job_notification.delay")?;
    if delay > LONGEST_DELAY {
        return wrong("job_notification.delay", "at most 12h");
    }
    let only_lost = match raw.only.as_deref() {
        None | Some("all") => false,
        Some("lost") => true,
        Some(other) => return wrong("job_notification.only", format!("{other:?} is neither all nor lost")),
    };
    let parse = |text: &str| {
        Template::parse(text, JOB_VARIABLES)
            .map_err(|message| ConfigError::Value { key: "job_notification.template", message })
    };
    let template = raw.template.as_deref().map(parse).transpose()?;
    let (target, template) = match (raw.url, raw.program) {
        (Some(url), None) => {
            let endpoint = Endpoint {
                url,
                username: raw.username,
                password_file: raw.password_file.map(PathBuf::from),
                bearer_token_file: raw.bearer_token_file.map(PathBuf::from),
                ca: raw.ca.map(PathBuf::from),
                headers: raw.headers,
                timeout,
            };
            (webhook(endpoint)?, template)
        }
        (None, Some(path)) => {
            let of_webhooks = raw.username.is_some()
                || raw.password_file.is_some()
                || raw.bearer_token_file.is_some()
                || raw.ca.is_some()
                || !raw.headers.is_empty();
            if of_webhooks {
                return wrong(
                    "job_notification.program",
                    format!("{name:?} is a program; credentials, ca and headers belong to a url"),
                );
            }
            (program(path, timeout)?, template.map_or_else(|| parse(MESSAGE), Ok).map(Some)?)
        }
        (Some(_), Some(_)) => {
            return wrong("job_notification.url", format!("{name:?} has a program too; set one of the two"));
        }
        (None, None) => return wrong("job_notification.url", format!("missing in {name:?}; set url or program")),
    };
    Ok(JobNotification { name, target, min_run_time, only_lost, delay, template })
}

fn webhook(endpoint: Endpoint) -> Result<JobNotificationTarget, ConfigError> {
    let url = Template::parse(&endpoint.url, JOB_VARIABLES)
        .map_err(|message| ConfigError::Value { key: "job_notification.url", message })?;
    // What users supply must not choose the server.
    let server =
        endpoint.url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(""));
    if server.contains('{') {
        return wrong("job_notification.url", "variables are allowed in path and query only, not in the server's name");
    }
    let shown = Endpoint { url: url.render(|_| "x".to_owned()), ..endpoint.clone() };
    check_endpoint(&shown).map_err(|e| rename_key("job_notification", e))?;
    Ok(JobNotificationTarget::Webhook { endpoint, url })
}

fn program(path: String, timeout: Duration) -> Result<JobNotificationTarget, ConfigError> {
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        return wrong(
            "job_notification.program",
            format!("{} is not an absolute path; arguments are not possible, write a script", path.display()),
        );
    }
    Ok(JobNotificationTarget::Program { path, timeout })
}
