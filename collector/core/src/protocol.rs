//! Protocols by which samples enter the collector.

/// A protocol; the `source` label of the collector's own metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC.
    OtlpGrpc,
    /// OTLP over HTTP.
    OtlpHttp,
    /// Prometheus remote write.
    RemoteWrite,
    /// JSON lines of an export.
    Import,
    /// The collector's own metrics.
    Own,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 5] = [Self::OtlpGrpc, Self::OtlpHttp, Self::RemoteWrite, Self::Import, Self::Own];

    /// Value of the `source` label.
    pub fn name(self) -> &'static str {
        match self {
            Self::OtlpGrpc => "otlp_grpc",
            Self::OtlpHttp => "otlp_http",
            Self::RemoteWrite => "remote_write",
            Self::Import => "import",
            Self::Own => "self",
        }
    }
}
