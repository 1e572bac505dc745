//! Query errors, with the error types and texts of Prometheus' HTTP API.

use fabriclens_model::ReadError;

/// A position in the query text, counted from 1; columns count bytes, as in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column in bytes.
    pub column: usize,
}

impl Position {
    /// The position of a byte offset in `text`; an offset beyond the end yields the end.
    pub fn of(text: &str, offset: usize) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|b| **b != b'\n').count();
        Self { line, column }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Result of evaluating an expression or a part of it.
pub(crate) type Evaluated<T> = Result<T, QueryError>;

/// A failed query. `Display` is the text of Prometheus' `error` field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QueryError {
    /// The text is not a valid query, or does not type-check.
    #[error("{}parse error: {message}", position.map(|p| format!("{p}: ")).unwrap_or_default())]
    Parse {
        /// Description of the error, in Prometheus' wording if it has one.
        message: String,
        /// Position of the error, if known.
        position: Option<Position>,
    },
    /// Invalid request parameters (a negative step, an end before the start).
    #[error("{0}")]
    BadRequest(String),
    /// The query is well-formed but cannot be evaluated on this data.
    #[error("{0}")]
    Execution(String),
    /// The query exceeds the limit of samples.
    #[error(
        "query processing would load too many samples into memory in query execution (limit {limit}; narrow the selector or the time range, or raise max_samples)"
    )]
    TooManySamples {
        /// The limit in samples.
        limit: usize,
    },
    /// The query needs more memory than its budget allows.
    #[error(
        "query processing would load too many samples into memory in query execution (more than the memory for queries; narrow the selector or the time range, or raise it)"
    )]
    Memory,
    /// The deadline passed.
    #[error("query timed out in query execution")]
    Timeout,
    /// The caller canceled the query.
    #[error("query was canceled in query execution")]
    Cancelled,
    /// The store or the remote engine failed.
    #[error("{0}")]
    Storage(String),
}

impl QueryError {
    /// Prometheus' `errorType`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Parse { .. } | Self::BadRequest(_) => "bad_data",
            Self::Execution(_) | Self::TooManySamples { .. } | Self::Memory => "execution",
            Self::Timeout => "timeout",
            Self::Cancelled => "canceled",
            Self::Storage(_) => "internal",
        }
    }
}

impl From<ReadError> for QueryError {
    fn from(e: ReadError) -> Self {
        match e {
            ReadError::Storage(m) => Self::Storage(m),
            ReadError::TooManySamples { limit } => Self::TooManySamples { limit },
            ReadError::Memory => Self::Memory,
            ReadError::Timeout => Self::Timeout,
            ReadError::Canceled => Self::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_bytes_from_one() {
        assert_eq!(Position::of("ab\ncd", 0).to_string(), "1:1");
        assert_eq!(Position::of("ab\ncd", 4).to_string(), "2:2");
        assert_eq!(Position::of("ab", 99).to_string(), "1:3");
    }
}
