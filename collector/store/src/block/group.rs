//! The series of all sources of a build in label order, and in groups whose columns lie in the same layouts. A block may
//! have millions of series, so that labels stay in the sources and a series takes few bytes here.

use super::index::ColumnLocation;
use super::label_table::LabelPair;
use super::source::Source;
use crate::error::StoreError;
use foldhash::{HashMap, HashMapExt as _};
use smallvec::SmallVec;
use std::sync::Arc;

/// The series of all sources, by index in label order.
pub struct Union {
    /// Label texts of all sources, sorted.
    pub texts: Vec<Arc<str>>,
    /// By source: indexes in `texts` of its texts.
    numbers: Vec<Vec<u32>>,
    /// A source of each series, and the position of the series there.
    origins: Vec<(u32, u32)>,
}

impl Union {
    /// Number of series.
    pub fn series(&self) -> usize {
        self.origins.len()
    }

    /// Replaces `out` by the labels of a series, as indexes in [`Union::texts`].
    pub fn labels(&self, sources: &[Source], series: u32, out: &mut Vec<LabelPair>) -> Result<(), StoreError> {
        let (source, position) = self.origins[series as usize];
        labels(&sources[source as usize], position as usize, &self.numbers[source as usize], out)
    }
}

fn labels(source: &Source, position: usize, numbers: &[u32], out: &mut Vec<LabelPair>) -> Result<(), StoreError> {
    out.clear();
    source.labels(position, out)?;
    out.iter_mut().for_each(|pair| *pair = (numbers[pair.0 as usize], numbers[pair.1 as usize]));
    Ok(())
}

/// Series whose columns lie in the same layouts of the same sources.
pub struct Group {
    /// Source and layout, earliest source first.
    layouts: Layouts,
    /// For each series: its index, and its column in each of the layouts.
    members: Vec<u32>,
}

type Layouts = SmallVec<[(u32, u32); 2]>;

impl Group {
    /// Source and layout of each column of a member, earliest source first.
    pub fn layouts(&self) -> &[(u32, u32)] {
        &self.layouts
    }

    /// Index of each series, and the source and location of its columns.
    pub fn members(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = (u32, ColumnLocation)>)> {
        self.members.chunks_exact(1 + self.layouts.len()).map(|member| {
            let columns = self.layouts.iter().zip(&member[1..]);
            (member[0], columns.map(|((source, layout), column)| (*source, (*layout, *column))))
        })
    }
}

/// All series, and their groups in order of location.
pub fn group(sources: &[Source]) -> Result<(Union, Vec<Group>), StoreError> {
    let texts: Vec<_> = sources.iter().map(Source::texts).collect();
    let (texts, numbers) = union_of(&texts);
    let most = sources.iter().map(Source::series).max().unwrap_or(0);
    let mut union = Union { texts, numbers, origins: Vec::with_capacity(most) };
    // Labels of the next series of each source.
    let mut fronts: Vec<(usize, Vec<LabelPair>)> = vec![(0, Vec::new()); sources.len()];
    let mut left: Vec<usize> = (0..sources.len()).filter(|s| sources[*s].series() > 0).collect();
    left.iter().try_for_each(|s| labels(&sources[*s], 0, &union.numbers[*s], &mut fronts[*s].1))?;
    let mut groups: HashMap<Layouts, Vec<u32>> = HashMap::new();
    let (mut first, mut layouts, mut member) = (Vec::new(), Layouts::new(), Vec::new());
    while let Some(source) = left.iter().copied().min_by(|a, b| fronts[*a].1.cmp(&fronts[*b].1)) {
        first.clone_from(&fronts[source].1);
        layouts.clear();
        member.clear();
        member.push(union.origins.len() as u32);
        union.origins.push((source as u32, fronts[source].0 as u32));
        let mut failed = None;
        left.retain(|s| {
            let (next, pairs) = &mut fronts[*s];
            if *pairs != first {
                return true;
            }
            sources[*s].locations(*next, |(layout, column)| {
                layouts.push((*s as u32, layout));
                member.push(column);
            });
            *next += 1;
            let more = *next < sources[*s].series();
            if more {
                failed = failed.take().or(labels(&sources[*s], *next, &union.numbers[*s], pairs).err());
            }
            more
        });
        if let Some(error) = failed {
            return Err(error);
        }
        match groups.get_mut(&layouts) {
            Some(members) => members.extend_from_slice(&member),
            None => _ = groups.insert(layouts.clone(), member.clone()),
        }
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(layouts, members)| Group { layouts, members }).collect();
    groups.sort_unstable_by(|a, b| a.layouts.cmp(&b.layouts));
    Ok((union, groups))
}

/// The texts of all sources (each sorted) in one sorted list, and for each source the mapping from its text indexes.
fn union_of(sources: &[&[Arc<str>]]) -> (Vec<Arc<str>>, Vec<Vec<u32>>) {
    let mut all: Vec<(&Arc<str>, usize, usize)> = Vec::new();
    for (s, source) in sources.iter().enumerate() {
        all.extend(source.iter().enumerate().map(|(t, text)| (text, s, t)));
    }
    // Each source's texts are sorted, which a stable sort exploits.
    all.sort_by_key(|t| t.0);
    let mut texts: Vec<Arc<str>> = Vec::new();
    let mut numbers: Vec<Vec<u32>> = sources.iter().map(|s| vec![0; s.len()]).collect();
    for (text, source, number) in all {
        if texts.last() != Some(text) {
            texts.push(text.clone());
        }
        numbers[source][number] = texts.len() as u32 - 1;
    }
    (texts, numbers)
}
