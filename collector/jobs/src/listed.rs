//! What a scheduler says that is asked for all of its jobs.

use crate::facts::{Facts, Key};

/// A job that a scheduler lists and that has or had hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// As the scheduler names it.
    pub key: Key,
    /// What it says; an end only when it is over.
    pub facts: Facts,
}

/// A job that is not understood, and why.
pub type Odd = (String, String);

/// A list, and the single jobs of it that are not understood.
pub type List = (Vec<Listed>, Vec<Odd>);
