//! What is known of one path after several traces.
//!
//! A switch may answer one trace and not the next, because it limits its answers, and it may send the packets of one source port
//! over several links. So a path is the union of the last traces, until one of them meets a switch that no other did and misses
//! those that were known: then the path has moved, and the traces before are forgotten.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Traces that a path is made of.
const RECENT: usize = 6;
/// Traces without an answer of a switch, after which its address is forgotten.
const SILENT: usize = 2;
/// A path that moved so often in the last [`MARKS`] full traces is "one of several": its earlier traces are kept.
const RESTLESS: usize = 2;
const MARKS: usize = 4;
/// Most addresses of a hop.
const ADDRESSES: usize = 16;

/// What one trace told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Switches by distance, each list sorted; empty: no answer.
    pub hops: Vec<Vec<IpAddr>>,
    /// Whether the target is behind the last of them.
    pub complete: bool,
}

impl Traced {
    /// Whether every switch up to the target is known.
    pub fn is_known(&self) -> bool {
        self.complete && self.hops.iter().all(|hop| !hop.is_empty())
    }

    /// Whether no switch is known, and not that there is none.
    pub fn is_unknown(&self) -> bool {
        !self.complete && self.hops.iter().all(Vec::is_empty)
    }
}

/// A path after its traces.
#[derive(Clone, Debug, Default)]
pub struct Path {
    recent: VecDeque<Traced>,
    /// Whether the path had moved, for the last full traces.
    moves: VecDeque<bool>,
    current: Option<Traced>,
}

/// What a trace meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The path is as it was.
    Same,
    /// A quick trace met something new: the path must be traced fully.
    Unsure,
    /// The path has changed. `moved`: the flow left switches that it had passed.
    Changed { moved: bool },
}

impl Path {
    /// The path; `None` before the first trace.
    pub fn current(&self) -> Option<&Traced> {
        self.current.as_ref()
    }

    /// Takes a trace. `full`: with several answers of each switch.
    pub fn take(&mut self, traced: Traced, full: bool) -> Taken {
        let (is_new, moved) = self.current.as_ref().map_or((true, false), |current| compare(current, &traced));
        if is_new && !full && self.current.is_some() {
            return Taken::Unsure;
        }
        if full {
            push(&mut self.moves, moved, MARKS);
        }
        let restless = self.moves.iter().filter(|moved| **moved).count() >= RESTLESS;
        let reshaped = self.recent.back().is_some_and(|last| !last.has_shape_of(&traced));
        if reshaped || moved && !restless {
            self.recent.clear();
        }
        push(&mut self.recent, traced, RECENT);
        let union = self.union();
        if self.current.as_ref() == Some(&union) {
            return Taken::Same;
        }
        self.current = Some(union);
        Taken::Changed { moved: moved || reshaped }
    }

    /// Union of the recent traces, which all have one shape.
    fn union(&self) -> Traced {
        let Some(last) = self.recent.back() else { return Traced::default() };
        let hop = |position: usize| {
            let all = self.recent.iter().filter_map(|traced| traced.hops.get(position));
            if all.clone().rev().take(SILENT).all(Vec::is_empty) {
                return Vec::new();
            }
            let mut hop: Vec<IpAddr> = all.flatten().copied().collect();
            hop.sort_unstable();
            hop.dedup();
            hop.truncate(ADDRESSES);
            hop
        };
        Traced { hops: (0..last.hops.len()).map(hop).collect(), complete: last.complete }
    }
}

impl Traced {
    fn has_shape_of(&self, other: &Self) -> bool {
        self.hops.len() == other.hops.len() && self.complete == other.complete
    }
}

/// Whether the trace tells something new, and whether it left switches of the path.
fn compare(path: &Traced, traced: &Traced) -> (bool, bool) {
    let both = || path.hops.iter().zip(&traced.hops).filter(|(known, seen)| !known.is_empty() && !seen.is_empty());
    let has_new = both().any(|(known, seen)| seen.iter().any(|address| !known.contains(address)));
    let has_left = both().any(|(known, seen)| seen.iter().all(|address| !known.contains(address)));
    (has_new || !path.has_shape_of(traced), has_left)
}

fn push<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() >= most {
        list.pop_front();
    }
    list.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of switches named by numbers; 0: no answer.
    fn traced(hops: &[&[u8]]) -> Traced {
        let address = |number: &u8| IpAddr::from([10, 9, 0, *number]);
        let hop = |hop: &&[u8]| hop.iter().filter(|number| **number > 0).map(address).collect();
        Traced { hops: hops.iter().map(hop).collect(), complete: true }
    }

    fn path(traces: &[&[&[u8]]]) -> Path {
        let mut path = Path::default();
        traces.iter().for_each(|hops| _ = path.take(traced(hops), true));
        path
    }

    #[test]
    fn a_move_is_confirmed_by_a_full_trace() {
        let mut path = path(&[&[&[1], &[2], &[3]]]);
        assert_eq!(path.take(traced(&[&[1], &[2], &[3]]), false), Taken::Same);
        let other = || traced(&[&[1], &[4], &[3]]);
        assert_eq!(path.take(other(), false), Taken::Unsure);
        assert_eq!(path.current(), Some(&traced(&[&[1], &[2], &[3]])));
        assert_eq!(path.take(other(), true), Taken::Changed { moved: true });
        assert_eq!(path.current(), Some(&other()), "the switches before are forgotten");
    }

    #[test]
    fn a_source_port_whose_packets_spread_is_one_of_several() {
        let mut path = path(&[&[&[1], &[2, 4], &[3]]]);
        assert_eq!(path.take(traced(&[&[1], &[4], &[3]]), false), Taken::Same);
        assert_eq!(path.take(traced(&[&[1], &[5], &[3]]), false), Taken::Unsure);
        assert_eq!(path.take(traced(&[&[1], &[4, 5], &[3]]), true), Taken::Changed { moved: false });
        assert_eq!(path.current(), Some(&traced(&[&[1], &[2, 4, 5], &[3]])));
        // What was not met for long is left out.
        for _ in 0..RECENT {
            path.take(traced(&[&[1], &[4], &[3]]), false);
        }
        assert_eq!(path.current(), Some(&traced(&[&[1], &[4], &[3]])));
    }

    #[test]
    fn a_path_that_moves_with_every_trace_is_one_of_several() {
        let mut path = path(&[&[&[1], &[2]], &[&[1], &[4]], &[&[1], &[2]]]);
        assert_eq!(path.current(), Some(&traced(&[&[1], &[2, 4]])));
        assert_eq!(path.take(traced(&[&[1], &[4]]), false), Taken::Same);
    }

    #[test]
    fn one_silence_is_nothing_and_two_leave_the_hop_empty() {
        let mut path = path(&[&[&[1], &[2], &[3]]]);
        assert_eq!(path.take(traced(&[&[1], &[0], &[3]]), false), Taken::Same);
        assert_eq!(path.take(traced(&[&[1], &[0], &[3]]), false), Taken::Changed { moved: false });
        let current = path.current().expect("traced").clone();
        assert!(current == traced(&[&[1], &[0], &[3]]) && !current.is_known() && !current.is_unknown());
        assert_eq!(path.take(traced(&[&[1], &[4], &[3]]), false), Taken::Changed { moved: false }, "it answers again");
        assert_eq!(path.current(), Some(&traced(&[&[1], &[2, 4], &[3]])), "which of them is not known");
    }

    #[test]
    fn a_longer_path_replaces_the_shorter() {
        let mut path = path(&[&[&[1], &[2], &[3]]]);
        let longer = traced(&[&[1], &[2], &[5], &[6], &[3]]);
        assert_eq!(path.take(longer.clone(), false), Taken::Unsure);
        assert_eq!(path.take(longer.clone(), true), Taken::Changed { moved: true });
        assert_eq!(path.current(), Some(&longer));
        let gone = Traced::default();
        assert_eq!(path.take(gone.clone(), true), Taken::Changed { moved: true });
        assert!(path.current().is_some_and(Traced::is_unknown));
    }
}
