//! HTTP clients of other servers, with the credentials and the trust of a configured endpoint. Used by forwarding, the
//! remote engine, notifications and job sources.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use ureq::http::{Response, header};
use ureq::typestate::{WithBody, WithoutBody};
use ureq::{Agent, Body, RequestBuilder};

use crate::reload::{Reload as _, Reloaded};
use crate::telemetry::Telemetry;
use fabriclens_config as config;

/// Bytes of an error response that are read.
const ERROR_BYTES: u64 = 1000;
/// Upper bound of a `Retry-After`.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// A client of one server. Connections are kept until the certificate authority file changes.
pub struct Client {
    agent: Arc<Reloaded<Agent>>,
    endpoint: config::Endpoint,
}

/// A file named by a [`config::Endpoint`] cannot be used.
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
    /// Creates a client and checks that its files can be read. The certificate authority is polled before each request,
    /// and a file that cannot be used leaves the previous one in force. Passwords and tokens are read for each request.
    ///
    /// # Errors
    /// [`FileError`] with the path.
    pub fn new(endpoint: &config::Endpoint, telemetry: &Telemetry) -> Result<Self, FileError> {
        let (files, of) = (endpoint.ca.iter().cloned().collect(), endpoint.clone());
        let agent = Reloaded::new("server_ca", files, telemetry, move || agent(&of))?;
        let client = Self { agent, endpoint: endpoint.clone() };
        client.authorization()?;
        Ok(client)
    }

    /// URL of the server.
    pub fn url(&self) -> &str {
        &self.endpoint.url
    }

    /// Starts a POST to `url` with the endpoint's headers and credentials.
    ///
    /// # Errors
    /// [`FileError`] if the password or token file can no longer be read.
    pub fn post(&self, url: &str) -> Result<RequestBuilder<WithBody>, FileError> {
        self.agent.poll();
        self.with_credentials(self.agent.get().post(url))
    }

    /// Starts a GET of `url`, like [`Client::post`].
    ///
    /// # Errors
    /// [`FileError`] if the password or token file can no longer be read.
    pub fn get(&self, url: &str) -> Result<RequestBuilder<WithoutBody>, FileError> {
        self.agent.poll();
        self.with_credentials(self.agent.get().get(url))
    }

    /// Shortens the timeout of a request to `left`.
    pub fn within<T>(&self, request: RequestBuilder<T>, left: Option<Duration>) -> RequestBuilder<T> {
        let timeout = left.map_or(self.endpoint.timeout, |left| left.min(self.endpoint.timeout));
        request.config().timeout_global(Some(timeout.max(Duration::from_millis(1)))).build()
    }

    fn with_credentials<T>(&self, mut request: RequestBuilder<T>) -> Result<RequestBuilder<T>, FileError> {
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

/// Creates an HTTP agent with its own connection pool.
fn agent(endpoint: &config::Endpoint) -> Result<Agent, FileError> {
    let mut builder = Agent::config_builder()
        .timeout_global(Some(endpoint.timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("fabriclens/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = &endpoint.ca {
        builder = builder.tls_config(crate::pem::trusting(path).map_err(|e| FileError::new(path, e))?);
    }
    Ok(builder.build().new_agent())
}

/// Describes an error response: status and the beginning of the body, as in `HTTP 400: out of order sample`.
pub fn error_text(response: &mut Response<Body>) -> String {
    let mut bytes = Vec::new();
    let reader = response.body_mut().as_reader();
    let read = io::Read::read_to_end(&mut io::Read::take(reader, ERROR_BYTES), &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = if read.is_err() { " (cut off)" } else { "" };
    format!("HTTP {}: {}{cut}", response.status().as_u16(), text)
}

/// Parses `Retry-After` (seconds or HTTP date), at most `LONGEST_WAIT`.
pub fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}

/// Returns a random duration between half of `backoff` and `backoff`, so that senders that failed together do not retry
/// together.
pub fn jitter(backoff: Duration) -> Duration {
    let random = RandomState::new().hash_one(Instant::now()) % 1000;
    backoff.mul_f64(0.5 + random as f64 / 2000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let asked = |text: &str| {
            let answer = Response::builder().header(header::RETRY_AFTER, text);
            retry_after(&answer.body(Body::builder().data("")).unwrap())
        };
        assert_eq!(asked("7"), Some(Duration::from_secs(7)));
        assert_eq!(asked("86400"), Some(LONGEST_WAIT));
        assert_eq!(asked("soon"), None);
        let later = asked(&httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100))).unwrap();
        assert!(later > Duration::from_secs(30) && later <= Duration::from_secs(100), "{later:?}");
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO), "a date in the past");
    }

    #[test]
    fn credentials_are_read_for_each_request() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\n").unwrap();
        let mut endpoint = config::Endpoint {
            url: "http://x".to_owned(),
            username: None,
            password_file: None,
            bearer_token_file: Some(file.path().to_owned()),
            ca: None,
            headers: [].into(),
            timeout: Duration::from_secs(1),
        };
        let telemetry = Telemetry::new().unwrap();
        let client = Client::new(&endpoint, &telemetry).unwrap();
        assert_eq!(client.authorization().unwrap().unwrap(), "Bearer one");
        std::fs::write(file.path(), "two").unwrap();
        assert_eq!(client.authorization().unwrap().unwrap(), "Bearer two");
        endpoint.bearer_token_file = Some("/nonexistent/token".into());
        let error = Client::new(&endpoint, &telemetry).err().unwrap().to_string();
        assert!(error.starts_with("/nonexistent/token: "), "{error}");
    }

    #[test]
    fn jitter_stays_within_its_bounds() {
        for _ in 0..100 {
            let t = jitter(Duration::from_secs(10));
            assert!((Duration::from_secs(5)..=Duration::from_secs(10)).contains(&t), "{t:?}");
        }
    }
}
