//! The Fabriclens agent.
