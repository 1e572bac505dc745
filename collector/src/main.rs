//! `fabriclens`.
fn main() {}
