//! Paths by flow, each with the versions that were valid one after the other.

use super::path::{Flow, Path, PathSource};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Versions of a path that are kept: windows reach back over a few traces.
const VERSIONS: usize = 4;
/// Different paths between two switches that a flow with an unknown path may take; more say nothing.
const MOST_ALTERNATIVES: usize = 64;

/// What is known of a flow's path.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    /// Its own path.
    Own(Arc<Path>),
    /// Paths of which it takes one; none: its path is not known any more.
    OneOf(Vec<Arc<Path>>),
}

impl Known {
    fn paths(&self) -> &[Arc<Path>] {
        match self {
            Self::Own(path) => std::slice::from_ref(path),
            Self::OneOf(paths) => paths,
        }
    }
}

/// What is known, and since when it is valid, Unix nanoseconds.
type Version = (i64, Known);

/// Versions of a path, the oldest first, and when the last one was last told.
#[derive(Clone, Debug, Default)]
struct Versions {
    list: Vec<Version>,
    told_ns: i64,
}

/// Paths by flow.
#[derive(Clone, Debug, Default)]
pub struct PathTable {
    versions: HashMap<Flow, Versions>,
    /// Inner hops (without the first and the last, which follow from the flow's own ports) of known paths, by the switches
    /// of the two ports.
    inner: HashMap<[usize; 2], BTreeSet<Vec<usize>>>,
}

impl PathTable {
    /// Stores a path that is valid from an instant on, until it is replaced. `leaves` are the switches of the flow's ports, if
    /// the path is complete.
    pub fn set(&mut self, flow: Flow, path: Path, since_ns: i64, leaves: Option<[usize; 2]>) {
        if let (Some(leaves), [_, inner @ .., _]) = (leaves, path.hops.as_slice()) {
            let known = self.inner.entry(leaves).or_default();
            if known.len() < MOST_ALTERNATIVES {
                known.insert(inner.to_vec());
            }
        }
        self.add(flow, Known::Own(Arc::new(path)), since_ns);
    }

    /// Stores paths of which a flow takes one from an instant on, until they are replaced.
    pub fn set_one_of(&mut self, flow: Flow, paths: Vec<Path>, since_ns: i64) {
        // A flow of which nothing was known has nothing to replace.
        if !paths.is_empty() || self.versions.contains_key(&flow) {
            let paths = paths.into_iter().take(MOST_ALTERNATIVES).map(Arc::new).collect();
            self.add(flow, Known::OneOf(paths), since_ns);
        }
    }

    fn add(&mut self, flow: Flow, known: Known, since_ns: i64) {
        let Versions { list, told_ns } = self.versions.entry(flow).or_default();
        // A report that was overtaken by a newer one says nothing new.
        if list.last().is_some_and(|(last_ns, _)| *last_ns > since_ns) {
            return;
        }
        *told_ns = since_ns;
        if list.last().is_some_and(|(_, last)| *last == known) {
            return;
        }
        if list.len() == VERSIONS {
            list.remove(0);
        }
        list.push((since_ns, known));
    }

    /// The path of a flow at an instant; `None` if it is unknown, or one of several.
    pub fn at(&self, flow: Flow, time_ns: i64) -> Option<&Arc<Path>> {
        match self.known(flow, time_ns)? {
            Known::Own(path) => Some(path),
            Known::OneOf(_) => None,
        }
    }

    /// The path of a flow at an instant, or those of which it takes one; none if they are unknown.
    pub fn all_at(&self, flow: Flow, time_ns: i64) -> &[Arc<Path>] {
        self.known(flow, time_ns).map_or(&[], Known::paths)
    }

    fn known(&self, flow: Flow, time_ns: i64) -> Option<&Known> {
        let versions = self.versions.get(&flow)?;
        versions.list.iter().rev().find(|(since, _)| *since <= time_ns).map(|(_, known)| known)
    }

    /// Paths that a flow may take whose own path is unknown: those of other flows between the same two switches.
    pub fn alternatives(&self, flow: Flow, leaves: [usize; 2], last: usize) -> Vec<Path> {
        let path = |inner: &Vec<usize>| {
            let hops = [flow.from].into_iter().chain(inner.iter().copied()).chain([last]).collect();
            Path { hops, source: PathSource::OneOf }
        };
        self.inner.get(&leaves).into_iter().flatten().map(path).collect()
    }

    /// Flows whose own newest path crosses any of these egress ports.
    pub fn flows_over<'a>(&'a self, links: &'a HashSet<usize>) -> impl Iterator<Item = Flow> + 'a {
        let is_over = |versions: &Versions| match versions.list.last() {
            Some((_, Known::Own(path))) => path.hops.iter().any(|hop| links.contains(hop)),
            _ => false,
        };
        self.versions.iter().filter(move |(_, versions)| is_over(versions)).map(|(flow, _)| *flow)
    }

    /// Whether no path is known.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// Drops traced paths that were not told again since an instant, and other ways between switches that only they showed.
    pub(super) fn forget_before(&mut self, time_ns: i64) {
        let last = |versions: &Versions| Some(versions.list.last()?.1.paths().first()?.source);
        let is_traced = |versions: &Versions| last(versions) == Some(PathSource::Traced);
        let before = self.versions.len();
        self.versions.retain(|_, versions| versions.told_ns >= time_ns || !is_traced(versions));
        if self.versions.len() < before {
            let left: HashSet<&[usize]> = self
                .versions
                .values()
                .flat_map(|versions| &versions.list)
                .flat_map(|(_, known)| known.paths())
                .filter_map(|path| path.hops.get(1..path.hops.len().saturating_sub(1)))
                .collect();
            self.inner.values_mut().for_each(|known| known.retain(|hops| left.contains(hops.as_slice())));
        }
    }

    /// Drops all paths over these ports.
    pub(super) fn forget(&mut self, ports: &HashSet<usize>) {
        let over = |hops: &[usize]| hops.iter().any(|hop| ports.contains(hop));
        let is_gone = |(_, known): &Version| known.paths().iter().any(|path| over(&path.hops));
        self.versions.retain(|flow, versions| {
            !ports.contains(&flow.from) && !ports.contains(&flow.to) && !versions.list.iter().any(is_gone)
        });
        self.inner.values_mut().for_each(|known| known.retain(|hops| !over(hops)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traced_paths_are_forgotten_unless_they_are_told_again() {
        let flow = |to| Flow { from: 0, to, source_port: Some(50_000) };
        let path = |hops: &[usize], source| Path { hops: hops.to_vec(), source };
        let (mut table, leaves) = (PathTable::default(), Some([1, 2]));
        table.set(flow(7), path(&[0, 4, 6], PathSource::Traced), 100, leaves);
        table.set(flow(8), path(&[0, 5, 6], PathSource::Traced), 100, leaves);
        table.set(flow(9), path(&[0, 3, 6], PathSource::ForwardingTable), 100, leaves);
        table.set(flow(8), path(&[0, 5, 6], PathSource::Traced), 300, leaves);
        table.set(flow(8), path(&[0, 4, 6], PathSource::Traced), 50, leaves);
        table.forget_before(200);
        let known = |to| table.at(flow(to), 300).map(|path| path.hops[1]);
        assert_eq!([known(7), known(8), known(9)], [None, Some(5), Some(3)], "a late report changes nothing");
        let unknown = Flow { from: 1, to: 8, source_port: None };
        let ways: Vec<usize> = table.alternatives(unknown, [1, 2], 6).iter().map(|path| path.hops[1]).collect();
        assert_eq!(ways, [3, 5]);
    }

    #[test]
    fn a_path_is_valid_until_it_is_replaced() {
        let flow = Flow { from: 0, to: 9, source_port: Some(50_000) };
        let path = |hops: &[usize]| Path { hops: hops.to_vec(), source: PathSource::Traced };
        let mut table = PathTable::default();
        table.set(flow, path(&[0, 4, 7]), 100, Some([1, 2]));
        table.set(flow, path(&[0, 5, 7]), 200, Some([1, 2]));
        let hop = |table: &PathTable, time_ns| table.at(flow, time_ns).map(|path| path.hops[1]);
        let over = |hop| table.flows_over(&HashSet::from([hop])).collect::<Vec<_>>();
        assert_eq!([over(4), over(5)], [vec![], vec![flow]], "by its newest path");
        assert_eq!([99, 100, 199, 200].map(|time_ns| hop(&table, time_ns)), [None, Some(4), Some(4), Some(5)]);
        assert_eq!(table.at(flow.reverse(), 200), None, "the answers may take another path");
        table.set_one_of(flow, vec![path(&[0, 4, 7]), path(&[0, 5, 7])], 300);
        assert_eq!((hop(&table, 300), table.all_at(flow, 300).len(), table.all_at(flow, 250).len()), (None, 2, 1));
        table.set_one_of(flow, Vec::new(), 400);
        assert_eq!((hop(&table, 400), table.all_at(flow, 400).len()), (None, 0), "no longer known");
        table.set_one_of(flow.reverse(), Vec::new(), 400);
        assert!(!table.versions.contains_key(&flow.reverse()));
        let unknown = Flow { from: 1, to: 8, source_port: None };
        let hops: Vec<Vec<usize>> = table.alternatives(unknown, [1, 2], 6).into_iter().map(|path| path.hops).collect();
        assert_eq!(hops, [[1, 4, 6], [1, 5, 6]], "between the same switches");
    }
}
