//! Requests to schedulers over HTTP.

use std::io::Read as _;

use ureq::typestate::WithoutBody;
use ureq::{Body, RequestBuilder, http::Response};

use fabriclens_core::endpoint;
use fabriclens_core::endpoint::{Client, FileError};

/// The request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GetError {
    #[error("{0}; give a file that this user can read")]
    File(#[from] FileError),
    #[error("cannot reach {url}: {source}; check the URL and the network")]
    Http { url: String, source: ureq::Error },
    #[error("{url} answers {answer}")]
    Refused { url: String, answer: String },
    #[error("the answer of {url} cannot be read: {source}")]
    Broken { url: String, source: std::io::Error },
    #[error("the answer of {url} is larger than {most} bytes")]
    Large { url: String, most: u64 },
}

/// Gets a body of at most `most` bytes; `add_headers` adds headers.
pub(super) fn get(
    client: &Client,
    url: &str,
    most: u64,
    add_headers: impl FnOnce(RequestBuilder<WithoutBody>) -> RequestBuilder<WithoutBody>,
) -> Result<Vec<u8>, GetError> {
    // Query strings may be private; server and path are enough to find the problem.
    let shown = || url.split('?').next().unwrap_or_default().to_owned();
    let response = add_headers(client.get(url)?).call();
    let mut response: Response<Body> = response.map_err(|source| GetError::Http { url: shown(), source })?;
    if !response.status().is_success() {
        return Err(GetError::Refused { url: shown(), answer: endpoint::error_text(&mut response) });
    }
    let mut body = Vec::new();
    let read = response.body_mut().as_reader().take(most + 1).read_to_end(&mut body);
    read.map_err(|source| GetError::Broken { url: shown(), source })?;
    if body.len() as u64 > most {
        return Err(GetError::Large { url: shown(), most });
    }
    Ok(body)
}
