//! OTLP to rows of the store.
