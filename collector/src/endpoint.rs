//! Other servers over HTTP: who they are told we are, whom of them we trust, what their answers mean. Used by
//! [`crate::forward`] and by the remote engine.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use ureq::http::{Response, header};
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, Body, RequestBuilder};

use crate::config;

/// Bytes of an error's text that are read.
const TOLD: u64 = 1000;
/// No server makes us wait longer.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Sends requests to one server; connections are kept.
pub struct Client {
    agent: Agent,
    endpoint: config::Endpoint,
}

/// A file that a [`config::Endpoint`] names cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FileError {
    path: std::path::PathBuf,
    message: String,
}

impl FileError {
    fn new(path: &Path, message: impl ToString) -> Self {
        Self { path: path.to_owned(), message: message.to_string() }
    }
}

impl Client {
    /// Checks that the files can be read.
    ///
    /// # Errors
    /// [`FileError`] naming the file.
    pub fn new(endpoint: &config::Endpoint) -> Result<Self, FileError> {
        let mut builder = Agent::config_builder()
            .timeout_global(Some(endpoint.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("fabriclens/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &endpoint.ca {
            builder = builder.tls_config(crate::client::trusting(path).map_err(|e| FileError::new(path, e))?);
        }
        let client = Self { agent: builder.build().new_agent(), endpoint: endpoint.clone() };
        client.authorization()?;
        Ok(client)
    }

    /// The server's address.
    pub fn url(&self) -> &str {
        &self.endpoint.url
    }

    /// A POST to `url` with everything that each request carries.
    ///
    /// # Errors
    /// [`FileError`] when a password or token can no longer be read.
    pub fn post(&self, url: &str) -> Result<RequestBuilder<WithBody>, FileError> {
        self.dressed(self.agent.post(url))
    }

    /// The same as a GET.
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, url: &str) -> Result<RequestBuilder<WithoutBody>, FileError> {
        self.dressed(self.agent.get(url))
    }

    fn dressed<T>(&self, mut request: RequestBuilder<T>) -> Result<RequestBuilder<T>, FileError> {
        for (name, value) in &self.endpoint.headers {
            request = request.header(name, value);
        }
        if let Some(value) = self.authorization()? {
            request = request.header(header::AUTHORIZATION, value);
        }
        Ok(request)
    }

    fn authorization(&self) -> Result<Option<String>, FileError> {
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path).map_err(|e| FileError::new(path, e))?;
            Ok(text.trim_end_matches(['\r', '\n']).to_owned())
        };
        let e = &self.endpoint;
        Ok(match (&e.username, &e.password_file, &e.bearer_token_file) {
            (Some(user), Some(file), _) => {
                let pair = format!("{user}:{}", read(file)?);
                Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
            }
            (_, _, Some(file)) => Some(format!("Bearer {}", read(file)?.trim())),
            _ => None,
        })
    }
}

/// `HTTP 400: out of order sample`, with as much of the body as helps.
pub fn said(response: &mut Response<Body>) -> String {
    let mut bytes = Vec::new();
    let reader = response.body_mut().as_reader();
    let read = io::Read::read_to_end(&mut io::Read::take(reader, TOLD), &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = if read.is_err() { " (cut off)" } else { "" };
    format!("HTTP {}: {}{cut}", response.status().as_u16(), text)
}

/// How long the server wants to be left alone.
pub fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}
