//! Files of counters that the preload library `deploy/mpi` writes: calls, bytes and time of the MPI operations of a process.
//!
//! Each process of a job has one small file of fixed size, which it maps and which is removed when it ends. A [`CounterFile`] keeps it
//! open, so that the last values can be read afterwards; [`Follower`] gives what is new since the last look. Files belong to the user
//! of the job and say about its process what they like: owner, process, size and form are checked, and numbers that cannot be are left out.

mod file;
mod follow;
mod layout;

pub use file::{CounterFile, Refused, name_of};
pub use follow::{Follower, Step};
pub use layout::{Cell, Counters, Group, Inside, Malformed, Operation, parse};
