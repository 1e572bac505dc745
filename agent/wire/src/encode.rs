//! Sections to OTLP.
