//! What is new in the counters of a process since the last look.

use super::layout::{Cell, Counters, Group};
use crate::inspector::{CLASSES, SizeClass};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Most threads that may be in MPI at once: bounds the time that can have passed there.
const THREADS: u64 = 1024;

/// Operations of a process since the last look, of one kind, group and class of size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name without `MPI_`.
    pub operation: Arc<str>,
    /// Which ranks took part.
    pub group: Group,
    /// Class of the message size.
    pub size: SizeClass,
    /// No rank leaves the operation before all others have entered.
    pub all_wait: bool,
    /// What is new.
    pub new: Cell,
}

/// Follows the counters of a process.
#[derive(Debug, Default)]
pub struct Follower {
    last: HashMap<(Arc<str>, Group, SizeClass), Cell>,
    /// Monotonic time of the last look, nanoseconds, and the time in the operation that the process was in then.
    looked: Option<(u64, u64)>,
    /// Looks whose values cannot be: a counter went back, or more time passed in MPI than there was.
    pub implausible: u64,
}

impl Follower {
    /// What is new, and the share of time since the last look that the process was in MPI. `now` is monotonic time, nanoseconds.
    /// The share is `None` at the first look, after the end of MPI, and if several threads call MPI.
    pub fn look(&mut self, counters: &Counters, now: u64) -> (Vec<Step>, Option<f64>) {
        let mut steps = Vec::new();
        let mut spent = 0_u64;
        let elapsed = self.looked.map(|(at, _)| now.saturating_sub(at));
        for operation in &counters.operations {
            for (group, cells) in Group::ALL.into_iter().zip(&operation.cells) {
                for ((bound, _), cell) in CLASSES.iter().zip(cells) {
                    let size = SizeClass::of(*bound);
                    let key = (Arc::clone(&operation.name), group, size);
                    let last = self.last.get(&key).copied().unwrap_or_default();
                    let Some(new) = difference(*cell, last) else {
                        self.implausible += 1;
                        return (Vec::new(), None);
                    };
                    spent = spent.saturating_add(new.nanoseconds);
                    if new != Cell::default() {
                        steps.push(Step {
                            operation: Arc::clone(&key.0),
                            group,
                            size,
                            all_wait: operation.all_wait,
                            new,
                        });
                    }
                }
            }
        }
        let inside = counters.entered.map_or(0, |entered| now.saturating_sub(entered));
        // An operation that began before the last look counts as a whole when it ends.
        let most = elapsed.map(|elapsed| elapsed.saturating_add(self.looked.map_or(0, |(_, inside)| inside)));
        if most.is_some_and(|most| spent > most.saturating_add(1_000_000_000).saturating_mul(THREADS)) {
            self.implausible += 1;
            return (Vec::new(), None);
        }
        for step in &steps {
            let last = self.last.entry((Arc::clone(&step.operation), step.group, step.size)).or_default();
            *last = Cell {
                calls: last.calls.saturating_add(step.new.calls),
                bytes: last.bytes.saturating_add(step.new.bytes),
                nanoseconds: last.nanoseconds.saturating_add(step.new.nanoseconds),
            };
        }
        let before = self.looked.replace((now, inside)).map(|(_, inside)| inside);
        let share =
            elapsed.zip(before).filter(|(elapsed, _)| *elapsed > 0 && !counters.several_threads && !counters.ended);
        let share = share.map(|(elapsed, before)| {
            let seconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64();
            ((seconds(spent) + seconds(inside) - seconds(before)) / seconds(elapsed)).clamp(0.0, 1.0)
        });
        (steps, share)
    }
}

/// Difference of two sums; `None` if one went back.
fn difference(now: Cell, last: Cell) -> Option<Cell> {
    Some(Cell {
        calls: now.calls.checked_sub(last.calls)?,
        bytes: now.bytes.checked_sub(last.bytes)?,
        nanoseconds: now.nanoseconds.checked_sub(last.nanoseconds)?,
    })
}
