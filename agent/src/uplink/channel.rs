//! One gRPC channel to the collector: connects when first used, and again whenever it must.

use super::codec::OtlpCodec;
use super::verdict::{self, Verdict};
use crate::config::{Collector, Compression};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{self, Certificate, ClientTlsConfig, Endpoint, Identity};

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Why no channel can be made at all: a mistake in the config, not a collector that is away.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A PEM file cannot be read.
    #[error("reading {path} for TLS to the collector; check path and permissions")]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// URL or certificates are not usable.
    #[error("preparing the connection to {url}; check collector.url, ca, cert and key")]
    Endpoint {
        /// The URL.
        url: String,
        /// Why.
        #[source]
        source: transport::Error,
    },
}

#[derive(Debug)]
pub(super) struct Channel {
    channel: transport::Channel,
    compression: Compression,
}

impl Channel {
    pub(super) fn new(config: &Collector) -> Result<Self, ConnectError> {
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
        Ok(Self { channel: endpoint.connect_lazy(), compression: config.compression })
    }

    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// Steps down to a compression that more receivers know.
    pub(super) fn weaker_compression(&mut self) -> Compression {
        self.compression = match self.compression {
            Compression::Zstd => Compression::Gzip,
            Compression::Gzip | Compression::None => Compression::None,
        };
        self.compression
    }

    /// Sends the bytes of one request.
    pub(super) async fn send(&mut self, body: Bytes, timeout: Duration) -> Verdict {
        let answer = tokio::time::timeout(timeout, self.call(body)).await;
        answer.unwrap_or_else(|_| Verdict::Retry { after: None, message: format!("no answer within {timeout:?}") })
    }

    async fn call(&self, body: Bytes) -> Verdict {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc = match self.compression {
            Compression::Zstd => grpc.send_compressed(CompressionEncoding::Zstd),
            Compression::Gzip => grpc.send_compressed(CompressionEncoding::Gzip),
            Compression::None => grpc,
        };
        if let Err(e) = grpc.ready().await {
            return Verdict::Retry { after: None, message: verdict::chain(&e) };
        }
        match grpc.unary(Request::new(body), PathAndQuery::from_static(EXPORT), OtlpCodec).await {
            Ok(response) => {
                let partial = response.into_inner().partial_success.unwrap_or_default();
                let rejected = u64::try_from(partial.rejected_data_points).unwrap_or(0);
                Verdict::Taken { rejected, message: partial.error_message }
            }
            Err(status) => verdict::of(&status),
        }
    }
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
