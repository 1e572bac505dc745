//! The tracer in a fabric that answers as the test says, and in one of Linux routers.

mod fabric;
mod namespaces;
mod tracing;
