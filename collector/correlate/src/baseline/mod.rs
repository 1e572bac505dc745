//! Windows of frames, and the baseline of each port and job before an incident.

pub mod history;
pub mod job_cycles;
pub mod job_load;
pub mod reference;
pub mod removed_ports;
pub mod window;
