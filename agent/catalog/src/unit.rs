//! Units of exported values, as UCUM codes (OpenTelemetry) and Prometheus suffixes.

/// Unit of a metric. Only base units exist. Each variant's text gives the UCUM code and the Prometheus suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricUnit {
    /// `By`, `_bytes`
    Bytes,
    /// `s`, `_seconds`
    Seconds,
    /// `1`, `_ratio` (gauges only)
    Ratio,
    /// `Cel`, `_celsius`
    Celsius,
    /// `W`, `_watts`
    Watts,
    /// `V`, `_volts`
    Volts,
    /// `A`, `_amperes`
    Amperes,
    /// `By/s`, `_bytes_per_second`
    BytesPerSecond,
    /// A count with its UCUM annotation: `{packet}` has no suffix in Prometheus, `{packet}/s` has `_per_second`.
    Count(&'static str),
    /// No unit.
    None,
}

impl MetricUnit {
    /// UCUM code as OTLP carries it.
    pub fn ucum(self) -> &'static str {
        match self {
            Self::Bytes => "By",
            Self::Seconds => "s",
            Self::Ratio => "1",
            Self::Celsius => "Cel",
            Self::Watts => "W",
            Self::Volts => "V",
            Self::Amperes => "A",
            Self::BytesPerSecond => "By/s",
            Self::Count(annotation) => annotation,
            Self::None => "",
        }
    }

    /// Suffix of the Prometheus name, without the underscore.
    pub fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Bytes => Some("bytes"),
            Self::Seconds => Some("seconds"),
            Self::Ratio => Some("ratio"),
            Self::Celsius => Some("celsius"),
            Self::Watts => Some("watts"),
            Self::Volts => Some("volts"),
            Self::Amperes => Some("amperes"),
            Self::BytesPerSecond => Some("bytes_per_second"),
            Self::Count(annotation) if annotation.ends_with("/s") => Some("per_second"),
            Self::Count(_) | Self::None => None,
        }
    }
}
