//! Minimal OTLP/gRPC client for encoded requests: zstd, one connection per host.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use fabriclens_wire::Section;
use fabriclens_wire::encode::{Encoder, points};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper::{Request, Version, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpSocket;

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// Compression level of the agent.
const LEVEL: i32 = 1;

/// Outcome of a request.
pub enum Answer {
    /// Accepted, except for a number of rejected points.
    Taken {
        /// Rejected points.
        rejected: u64,
    },
    /// Must be retried.
    Refused(String),
}

/// Connection of one host to the collector.
pub struct Connection {
    sender: http2::SendRequest<Full<Bytes>>,
    authority: String,
}

impl Connection {
    /// Connects from its own address `127.1.x.y`: the collector distinguishes senders by address.
    ///
    /// # Errors
    /// When the collector cannot be reached.
    pub async fn open(collector: SocketAddr, host: usize) -> Result<Self> {
        let [high, low] = u16::try_from(host).context("too many hosts")?.to_be_bytes();
        let socket = TcpSocket::new_v4()?;
        socket.set_nodelay(true)?;
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 1, high, low), 0)))?;
        let stream = socket.connect(collector).await.with_context(|| format!("connect to {collector}"))?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // Ends when the sender is dropped; errors show in the requests.
        tokio::spawn(connection);
        Ok(Self { sender, authority: format!("http://{collector}{EXPORT}") })
    }

    /// Sends a message of a [`Packer`].
    ///
    /// # Errors
    /// When the connection breaks, or the collector refuses for good.
    pub async fn send(&mut self, frame: Bytes) -> Result<Answer> {
        let request = Request::post(&self.authority)
            .version(Version::HTTP_2)
            .header(header::TE, "trailers")
            .header(header::CONTENT_TYPE, "application/grpc")
            .header("grpc-encoding", "zstd")
            .body(Full::new(frame))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let mut headers = response.headers().clone();
        let body = response.into_body().collect().await?;
        headers.extend(body.trailers().cloned().unwrap_or_default());
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        match text("grpc-status").as_str() {
            "0" => {}
            // Resource exhausted and unavailable: retry later.
            "8" | "14" => return Ok(Answer::Refused(text("grpc-message"))),
            code => bail!("the collector refuses with code {code}: {}", text("grpc-message")),
        }
        let body = body.to_bytes();
        let response = ExportMetricsServiceResponse::decode(body.get(5..).unwrap_or_default())?;
        let rejected = response.partial_success.map_or(0, |p| p.rejected_data_points);
        Ok(Answer::Taken { rejected: rejected.max(0).cast_unsigned() })
    }
}

/// Encodes and compresses sections.
pub struct Packer {
    encoder: Encoder,
    zstd: zstd::bulk::Compressor<'static>,
    /// Uncompressed request.
    pub body: Vec<u8>,
}

impl Packer {
    /// A packer without cached layouts.
    ///
    /// # Errors
    /// When zstd cannot be initialized.
    pub fn new() -> Result<Self> {
        Ok(Self { encoder: Encoder::default(), zstd: zstd::bulk::Compressor::new(LEVEL)?, body: Vec::new() })
    }

    /// Encodes the sections into `body`; gives the number of samples.
    pub fn encode(&mut self, sections: &[Section]) -> u64 {
        self.encoder.encode(sections, &mut self.body);
        sections.iter().map(|s| points(s) as u64).sum()
    }

    /// Compresses `body` and adds the gRPC frame.
    ///
    /// # Errors
    /// When zstd cannot be initialized.
    pub fn frame(&mut self) -> Result<Bytes> {
        let packed = self.zstd.compress(&self.body)?;
        let mut frame = Vec::with_capacity(5 + packed.len());
        frame.push(1);
        frame.extend_from_slice(&u32::try_from(packed.len())?.to_be_bytes());
        frame.extend_from_slice(&packed);
        Ok(frame.into())
    }
}
