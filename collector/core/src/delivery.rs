//! One message by POST to a receiver, and whether it must be sent again.

use std::time::Duration;

use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Body, RequestBuilder};

use crate::endpoint::{self, Client};

/// Outcome of a message.
pub enum Delivery {
    /// The receiver took it.
    Accepted,
    /// The receiver will never take it: the answer is about its content.
    Refused(String),
    /// It must be sent again.
    Later {
        /// Delay requested by the receiver.
        wait: Option<Duration>,
        /// Reason.
        why: String,
    },
}

/// Sends JSON to `url` with the credentials of the client.
pub fn post_json(
    client: &Client,
    url: &str,
    body: &[u8],
    add_headers: impl FnOnce(RequestBuilder<WithBody>) -> RequestBuilder<WithBody>,
) -> Delivery {
    let later = |wait, why| Delivery::Later { wait, why };
    let request = match client.post(url) {
        Ok(request) => add_headers(request.header("content-type", "application/json")),
        Err(e) => return later(None, e.to_string()),
    };
    let mut response: Response<Body> = match request.send(body) {
        Ok(response) => response,
        Err(e) => return later(None, e.to_string()),
    };
    let (status, wait) = (response.status().as_u16(), endpoint::retry_after(&response));
    // The connection can only be reused after the body was read.
    let answer = endpoint::error_text(&mut response);
    match status {
        200..=299 => Delivery::Accepted,
        // The status is about the content, so a retry cannot help.
        400 | 409 | 410 | 413 | 415 | 422 => Delivery::Refused(answer),
        _ => later(wait, answer),
    }
}
