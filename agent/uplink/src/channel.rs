//! gRPC channel to one collector: connects at first use, reconnects as needed, reloads certificates and token.

use crate::codec::Answer;
use crate::config::{Collector, Compression};
use crate::frame::{Frame, Framer, plain};
use crate::response::{self, ResponseClass};
use crate::troubled_jobs::TroubledJobs;
use fabriclens_base::reload::WatchedFiles;
use http_body_util::Full;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use parking_lot::Mutex;
use prost::Message;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::http::{HeaderMap, HeaderValue, Method, Request, Uri, Version, header};
use tonic::transport::{self, Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status, Streaming};

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Reason why a channel cannot be created: an error in the configuration, not an unreachable collector.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A PEM file or the token cannot be read.
    #[error("reading {path} for the collector; check path and permissions")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// The token is not a valid header value.
    #[error(
        "the token in {path} is empty, or has characters that HTTP headers do not allow; copy it to the file unchanged"
    )]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// URL or certificates are unusable.
    #[error("preparing the connection to {url}; check collector.url, ca, cert and key")]
    Endpoint {
        /// The URL.
        url: String,
        /// Cause.
        #[source]
        source: transport::Error,
    },
}

/// Channel and credentials, built from the current files.
#[derive(Clone, Debug)]
struct Connection {
    channel: transport::Channel,
    /// `Bearer …`, if a token is configured.
    authorization: Option<HeaderValue>,
}

impl Connection {
    fn new(config: &Collector) -> Result<Self, ConnectError> {
        Ok(Self { channel: connect(config)?, authorization: authorization(config)? })
    }
}

/// Connection shared by all tasks that send to one collector; one check of the files serves all of them.
#[derive(Debug)]
pub(crate) struct SharedConnection(Mutex<(Connection, WatchedFiles)>);

impl SharedConnection {
    /// Connection with the current certificates and token. Unusable new files are logged; the previous credentials stay
    /// in use, as they may still be valid.
    fn link(&self, config: &Collector) -> Connection {
        let (link, files) = &mut *self.0.lock();
        let collector = &config.url;
        match files.poll_if_due(|| Connection::new(config)) {
            None => {}
            Some(Ok(new)) => {
                *link = new;
                tracing::info!(collector, "certificates or token changed; reconnecting");
            }
            Some(Err(error)) => {
                tracing::warn!(
                    collector,
                    error,
                    "changed certificates or token are unusable; the previous ones stay in use"
                );
            }
        }
        link.clone()
    }

    /// Reason why changed certificates or token are not in use.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.lock().1.failure().map(str::to_owned)
    }
}

#[derive(Debug)]
pub(crate) struct Channel {
    shared: Arc<SharedConnection>,
    config: Collector,
    compression: Compression,
    framer: Framer,
    troubled_jobs: Arc<TroubledJobs>,
}

impl Channel {
    pub(crate) fn new(config: &Collector) -> Result<Self, ConnectError> {
        // Watched before they are read, so that a change in between is noticed.
        let files = WatchedFiles::new(config.files().map(Path::to_owned).collect());
        Ok(Self {
            shared: Arc::new(SharedConnection(Mutex::new((Connection::new(config)?, files)))),
            compression: config.compression,
            framer: Framer::default(),
            troubled_jobs: Arc::default(),
            config: config.clone(),
        })
    }

    /// Same connection, for another task.
    pub(crate) fn share(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            config: self.config.clone(),
            compression: self.compression,
            framer: Framer::default(),
            troubled_jobs: Arc::clone(&self.troubled_jobs),
        }
    }

    /// Notes here which jobs the collector says are in trouble.
    pub(crate) fn note_troubled_jobs(&mut self, jobs: Arc<TroubledJobs>) {
        self.troubled_jobs = jobs;
    }

    /// Shared connection, for the counters.
    pub(crate) fn shared(&self) -> Arc<SharedConnection> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn url(&self) -> &str {
        &self.config.url
    }

    /// Switches to the next compression that more receivers support; returns it.
    pub(crate) fn weaker_compression(&mut self, than: Compression) -> Compression {
        self.compression = match than {
            Compression::Zstd => Compression::Gzip,
            Compression::Gzip | Compression::None => Compression::None,
        };
        self.compression
    }

    /// Encodes a request with the current compression.
    pub(crate) fn frame(&mut self, body: &[u8]) -> Frame {
        self.framer.frame(body, self.compression).unwrap_or_else(|error| {
            tracing::warn!(%error, "compression failed; requests are sent uncompressed");
            self.compression = Compression::None;
            plain(body)
        })
    }

    /// Calls a method with a short message, which is sent uncompressed.
    pub(crate) async fn unary<M: Message + Default + 'static>(
        &self,
        method: &'static str,
        request: &impl Message,
        timeout: Duration,
    ) -> Result<M, Status> {
        let mut link = self.shared.link(&self.config);
        let frame = plain(&request.encode_to_vec());
        let answer = async {
            link.ready().await.map_err(|e| Status::from_error(e.into()))?;
            link.unary(method, frame).await.map(|(_, message)| message)
        };
        let late = |_| Err(Status::deadline_exceeded(format!("no answer within {timeout:?}")));
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(late)
    }

    /// Sends one frame.
    pub(crate) async fn send(&mut self, frame: Frame, timeout: Duration) -> ResponseClass {
        let link = self.shared.link(&self.config);
        let answer = tokio::time::timeout(timeout, link.call(frame, &self.troubled_jobs)).await;
        answer
            .unwrap_or_else(|_| ResponseClass::Retry { after: None, message: format!("no answer within {timeout:?}") })
    }
}

impl Connection {
    async fn call(mut self, frame: Frame, troubled_jobs: &TroubledJobs) -> ResponseClass {
        if let Err(e) = self.ready().await {
            return ResponseClass::Retry { after: None, message: response::chain(&e) };
        }
        match self.unary::<ExportMetricsServiceResponse>(EXPORT, frame).await {
            Ok((headers, response)) => {
                troubled_jobs.take(&headers, Instant::now());
                let partial = response.partial_success.unwrap_or_default();
                let rejected = u64::try_from(partial.rejected_data_points).unwrap_or(0);
                ResponseClass::Accepted { rejected, message: partial.error_message }
            }
            Err(status) => response::of(&status),
        }
    }

    async fn ready(&mut self) -> Result<(), transport::Error> {
        std::future::poll_fn(|cx| GrpcService::<Body>::poll_ready(&mut self.channel, cx)).await
    }

    /// Unary call, as `tonic::client::Grpc` makes it, of a message that is already encoded and compressed. Returns the headers of
    /// the answer, too.
    async fn unary<M: Message + Default + 'static>(
        &mut self,
        method: &'static str,
        frame: Frame,
    ) -> Result<(HeaderMap, M), Status> {
        let encoding = match frame.compression {
            Compression::Zstd => Some("zstd"),
            Compression::Gzip => Some("gzip"),
            Compression::None => None,
        };
        let mut request = Request::new(Body::new(Full::new(frame.bytes)));
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from_static(method);
        let headers = request.headers_mut();
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        if let Some(encoding) = encoding {
            headers.insert("grpc-encoding", HeaderValue::from_static(encoding));
        }
        let response = self.channel.call(request).await.map_err(|e| Status::from_error(e.into()))?;
        let (parts, body) = response.into_parts();
        let mut answer = match Status::from_header_map(&parts.headers) {
            Some(status) if status.code() != Code::Ok => return Err(status),
            Some(_) => Streaming::new_empty(Answer::default(), body),
            None => Streaming::new_response(Answer::<M>::default(), body, parts.status, None, None),
        };
        let message = answer.message().await?.ok_or_else(|| Status::internal("the answer holds no message"))?;
        answer.trailers().await?;
        Ok((parts.headers, message))
    }
}

fn connect(config: &Collector) -> Result<transport::Channel, ConnectError> {
    let bad = |source| ConnectError::Endpoint { url: config.url.clone(), source };
    let mut endpoint = Endpoint::from_shared(config.url.clone())
        .map_err(bad)?
        .user_agent(concat!("fabriclens-agent/", env!("CARGO_PKG_VERSION")))
        .map_err(bad)?
        .connect_timeout(config.timeout.min(Duration::from_secs(5)))
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    if config.url.starts_with("https:") {
        endpoint = endpoint.tls_config(tls(config)?).map_err(bad)?;
    }
    Ok(endpoint.connect_lazy())
}

fn tls(config: &Collector) -> Result<ClientTlsConfig, ConnectError> {
    let read = |path: &Path| std::fs::read(path).map_err(|source| ConnectError::Pem { path: path.to_owned(), source });
    let mut tls = ClientTlsConfig::new();
    tls = match &config.tls.ca {
        Some(ca) => tls.ca_certificate(Certificate::from_pem(read(ca)?)),
        None => tls.with_native_roots(),
    };
    if let Some((cert, key)) = &config.tls.identity {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(tls)
}

/// Token as header value, without the line end.
fn authorization(config: &Collector) -> Result<Option<HeaderValue>, ConnectError> {
    let Some(path) = &config.token_file else { return Ok(None) };
    let token = std::fs::read_to_string(path).map_err(|source| ConnectError::Pem { path: path.clone(), source })?;
    let token = Some(token.trim()).filter(|t| !t.is_empty());
    let value = token.and_then(|t| HeaderValue::try_from(format!("Bearer {t}")).ok());
    let mut value = value.ok_or_else(|| ConnectError::Token { path: path.clone() })?;
    value.set_sensitive(true);
    Ok(Some(value))
}
