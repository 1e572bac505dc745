//! What was usual before trouble: frames that tell it, and what each job moved.

use crate::fabric::Fabric;
use crate::history::{Frame, Stretch, mean};
use std::collections::HashMap;
use std::sync::Arc;

/// Ticks without which nothing is known of a job; half of what is known of others will do where that is less.
const KNOWN: usize = 10;

/// What was usual, before trouble.
#[derive(Clone, Debug)]
pub struct Usual {
    /// The frames that tell it.
    pub stretch: Arc<Stretch>,
    /// How many of them are of after the last trouble, when jobs may have changed their ways.
    pub fresh: usize,
    jobs: Arc<[Option<Load>]>,
}

impl Usual {
    /// Of frames that are calm. What was before `fresh_ns` stays a yardstick, but does not count as known.
    pub fn of(stretch: Stretch, fabric: &Fabric, fresh_ns: i64) -> Self {
        let least = KNOWN.min(stretch.ticks().div_ceil(2));
        let load = |job: usize| {
            let load = Load::of(stretch.load(fabric, job), fabric.jobs[job].since_ns);
            load.filter(|load| load.ticks.len() >= least)
        };
        let jobs = (0..fabric.jobs.len()).map(load).collect();
        let fresh = stretch.frames().iter().filter(|f| f.time_ns >= fresh_ns).count();
        Self { stretch: Arc::new(stretch), fresh, jobs }
    }

    /// The same, of which so many frames are of after the last trouble.
    #[must_use]
    pub fn known(&self, fresh: usize) -> Self {
        Self { fresh, ..self.clone() }
    }

    /// Of these ports only, and of all jobs: a fraction of the memory.
    #[must_use]
    pub fn only(&self, ports: &[usize]) -> Self {
        Self { stretch: Arc::new(self.stretch.only(ports)), fresh: self.fresh, jobs: self.jobs.clone() }
    }

    /// Of a job; `None` if nothing of it was measured, or if its number was another job's then.
    pub fn job(&self, fabric: &Fabric, job: usize) -> Option<&Load> {
        let load = self.jobs.get(job)?.as_ref();
        load.filter(|load| load.since_ns == fabric.jobs[job].since_ns)
    }
}

/// Ports that are gone, and what was measured without them. What several share they share afterwards too.
pub struct Gone {
    /// Their numbers.
    pub ports: Vec<usize>,
    /// By address, which the old one has as long as it is kept here; and the new one.
    frames: HashMap<*const Frame, [Arc<Frame>; 2]>,
    usual: HashMap<*const Usual, [Arc<Usual>; 2]>,
}

impl Gone {
    /// Of these ports.
    pub fn new(ports: Vec<usize>) -> Self {
        Self { ports, frames: HashMap::new(), usual: HashMap::new() }
    }

    /// A frame without them.
    pub fn frame(&mut self, frame: &Arc<Frame>) -> Arc<Frame> {
        if !frame.tells_of(&self.ports) {
            return frame.clone();
        }
        let without = || [frame.clone(), Arc::new(frame.without(&self.ports))];
        self.frames.entry(Arc::as_ptr(frame)).or_insert_with(without)[1].clone()
    }

    /// What was usual without them.
    pub fn usual(&mut self, usual: &Arc<Usual>) -> Arc<Usual> {
        if !usual.stretch.frames().iter().any(|frame| frame.tells_of(&self.ports)) {
            return usual.clone();
        }
        if let Some([_, without]) = self.usual.get(&Arc::as_ptr(usual)) {
            return without.clone();
        }
        let stretch = Arc::new(usual.stretch.map(|frame| self.frame(frame)));
        let without = Arc::new(Usual { stretch, fresh: usual.fresh, jobs: usual.jobs.clone() });
        self.usual.insert(Arc::as_ptr(usual), [usual.clone(), without.clone()]);
        without
    }
}

/// What a job usually moves, both directions of all its ports.
#[derive(Clone, Debug)]
pub struct Load {
    /// By tick, relative to its mean.
    ticks: Vec<f64>,
    mean: f64,
    /// When the job began.
    since_ns: i64,
}

impl Load {
    /// Of bytes a second by tick, for a job that began at `since_ns`; `None` if it moved nothing.
    pub fn of(mut ticks: Vec<f64>, since_ns: i64) -> Option<Self> {
        let mean = mean(ticks.iter().copied()).filter(|m| *m > 0.0)?;
        ticks.iter_mut().for_each(|t| *t /= mean);
        Some(Self { ticks, mean, since_ns })
    }

    /// Bytes a second.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Means over every stretch of so many ticks, relative to the mean of all.
    fn stretches(&self, ticks: usize) -> impl Iterator<Item = f64> + '_ {
        self.ticks.windows(ticks).map(|w| w.iter().sum::<f64>() / w.len() as f64)
    }

    /// How much means over so many ticks differ by chance, relative to the mean. Longer than half of what is known cannot
    /// be seen; there chance is taken to fall with the root of length.
    pub fn chance(&self, ticks: usize) -> f64 {
        let seen = ticks.clamp(1, (self.ticks.len() / 2).max(1));
        let variance = mean(self.stretches(seen).map(|m| (m - 1.0).powi(2))).unwrap_or(0.0);
        variance.sqrt() * (seen as f64 / ticks.max(seen) as f64).sqrt()
    }

    /// The highest mean over so many ticks, relative to the mean.
    pub fn high(&self, ticks: usize) -> f64 {
        self.stretches(ticks.clamp(1, (self.ticks.len() / 2).max(1))).fold(1.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Ports;
    use crate::history::History;
    use crate::signal::Signal;
    use crate::topology::Topology;

    #[test]
    fn nothing_is_left_of_ports_that_are_gone_and_all_of_the_others() {
        let mut history = History::default();
        for second in 0..40 {
            let mut frame = Frame::new(second * 1_000_000_000);
            (0..300).for_each(|port| frame.set(Signal::Tx, port, (port + 1) as f64));
            history.push(frame, 1, i64::MIN);
        }
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let (old, mut gone) = (history.usual(&fabric, 0), Gone::new((0..128).chain([200]).collect()));
        let new = gone.usual(&old);
        history.leave(&mut gone);
        for usual in [&new, &history.usual(&fabric, 0)] {
            let kept = |port: &usize| usual.stretch.mean(Signal::Tx, *port) == Some((port + 1) as f64);
            assert_eq!((0..300).filter(kept).count(), 300 - 129);
            assert!(!usual.stretch.frames()[0].tells_of(&gone.ports));
        }
        assert!(Arc::ptr_eq(&new, &gone.usual(&old)), "what is shared stays shared");
        assert!(Arc::ptr_eq(&new.stretch.frames()[0], &history.usual(&fabric, 0).stretch.frames()[0]));
        assert!(Arc::ptr_eq(&new, &gone.usual(&new)), "there is nothing left to take away");
    }
}
