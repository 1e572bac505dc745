//! Schedulers that are asked over HTTP.

use std::io::Read as _;

use ureq::typestate::WithoutBody;
use ureq::{Body, RequestBuilder, http::Response};

use fabriclens_core::endpoint;
use fabriclens_core::endpoint::{Client, FileError};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum GetError {
    #[error("{0}; give a file that this user can read")]
    File(#[from] FileError),
    #[error("cannot ask {url}: {source}; check that it is reachable from here")]
    Http { url: String, source: ureq::Error },
    #[error("{url} says {said}")]
    Refused { url: String, said: String },
    #[error("the answer of {url} cannot be read: {source}")]
    Broken { url: String, source: std::io::Error },
    #[error("the answer of {url} is larger than {most} bytes")]
    Large { url: String, most: u64 },
}

/// The body of an answer of at most so many bytes; `dress` adds headers.
pub(super) fn get(
    client: &Client,
    url: &str,
    most: u64,
    dress: impl FnOnce(RequestBuilder<WithoutBody>) -> RequestBuilder<WithoutBody>,
) -> Result<Vec<u8>, GetError> {
    // Questions may hold what is private; the server and its path are enough to find it.
    let shown = || url.split('?').next().unwrap_or_default().to_owned();
    let answer = dress(client.get(url)?).call();
    let mut answer: Response<Body> = answer.map_err(|source| GetError::Http { url: shown(), source })?;
    if !answer.status().is_success() {
        return Err(GetError::Refused { url: shown(), said: endpoint::said(&mut answer) });
    }
    let mut body = Vec::new();
    let read = answer.body_mut().as_reader().take(most + 1).read_to_end(&mut body);
    read.map_err(|source| GetError::Broken { url: shown(), source })?;
    if body.len() as u64 > most {
        return Err(GetError::Large { url: shown(), most });
    }
    Ok(body)
}
