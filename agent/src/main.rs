//! `fabriclens-agent`.
fn main() {}
