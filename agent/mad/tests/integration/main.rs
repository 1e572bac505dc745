//! The crate against a simulated subnet: ibsim answers MADs, opensm assigns LIDs and routes.

mod counters;
mod discovery;
mod large;
mod paths;
