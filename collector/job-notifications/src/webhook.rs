//! A message by POST.

use fabriclens_config::{Endpoint, Template};
use fabriclens_core::delivery::{Delivery, post_json};
use fabriclens_core::endpoint::{Client, FileError};
use fabriclens_core::telemetry::Telemetry;
use serde::Serialize;

use crate::message::{Message, segment};

/// Body without a template.
#[derive(Serialize)]
struct Body<'a> {
    version: u8,
    event: &'static str,
    /// Unchanged when a request is retried.
    key: &'a str,
    url: &'a str,
    job: Job<'a>,
    cost: &'a str,
    cause: &'a str,
    earlier: &'a str,
    /// Absent: not measured.
    has_lost: Option<bool>,
    is_complete: bool,
}

#[derive(Serialize)]
struct Job<'a> {
    cluster: &'a str,
    id: &'a str,
    run: u32,
    user: &'a str,
    name: &'a str,
    hosts: usize,
    start_ns: i64,
    end_ns: i64,
}

/// A webhook whose URL may depend on the job.
pub(crate) struct Webhook {
    client: Client,
    url: Template,
    template: Option<Template>,
}

impl Webhook {
    pub(crate) fn new(
        endpoint: &Endpoint,
        url: Template,
        template: Option<Template>,
        telemetry: &Telemetry,
    ) -> Result<Self, FileError> {
        Ok(Self { client: Client::new(endpoint, telemetry)?, url, template })
    }

    /// Sends the message; blocks.
    pub(crate) fn send(&self, message: &Message) -> Delivery {
        let url = self.url.render(|name| segment(&message.value(name)));
        let body = match &self.template {
            Some(template) => template.render(|name| escaped(&message.value(name))).into_bytes(),
            None => body(message),
        };
        post_json(&self.client, &url, &body, |request| request.header("idempotency-key", &message.key))
    }
}

/// A text as the inside of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_owned()
}

fn body(message: &Message) -> Vec<u8> {
    let (run, digest) = (&message.run, &message.digest);
    let body = Body {
        version: 1,
        event: "job_ended",
        key: &message.key,
        url: &message.url,
        job: Job {
            cluster: &run.key.cluster,
            id: &run.key.id,
            run: run.run,
            user: &run.user,
            name: &run.name,
            hosts: digest.hosts,
            start_ns: run.start_ns,
            end_ns: run.end_ns,
        },
        cost: &digest.cost,
        cause: &digest.cause,
        earlier: &digest.earlier,
        has_lost: digest.has_lost,
        is_complete: digest.is_complete,
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_string() {
        assert_eq!(escaped("a\"},{\\"), "a\\\"},{\\\\");
    }
}
