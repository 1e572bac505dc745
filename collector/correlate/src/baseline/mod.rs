//! Windows of frames, and the baseline of each port and job before an incident.

mod frame_group;
mod frame_list;
pub mod history;
pub mod job_highs;
pub mod job_load;
pub mod job_phases;
mod memo;
mod rate_levels;
pub mod reference;
pub mod removed_ports;
mod stretches;
mod totals;
pub mod window;
