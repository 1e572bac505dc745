//! Clears removed ports from frames and baselines.

use crate::baseline::reference::Baseline;
use crate::model::frame::Frame;
use std::collections::HashMap;
use std::sync::Arc;

/// Removed ports, and copies of frames and baselines without their samples. Preserves `Arc` sharing between baselines.
pub struct RemovedPorts {
    /// Indices of the removed ports.
    pub ports: Vec<usize>,
    /// Old and new frame by the address of the old one, which is kept so that the address stays unique.
    frames: HashMap<*const Frame, [Arc<Frame>; 2]>,
    baseline: HashMap<*const Baseline, [Arc<Baseline>; 2]>,
}

impl RemovedPorts {
    /// For these ports.
    pub fn new(ports: Vec<usize>) -> Self {
        Self { ports, frames: HashMap::new(), baseline: HashMap::new() }
    }

    /// A frame without their samples.
    pub fn frame(&mut self, frame: &Arc<Frame>) -> Arc<Frame> {
        if !frame.has_any_of(&self.ports) {
            return frame.clone();
        }
        let without = || [frame.clone(), Arc::new(frame.without_ports(&self.ports))];
        self.frames.entry(Arc::as_ptr(frame)).or_insert_with(without)[1].clone()
    }

    /// A baseline without their samples.
    pub fn baseline(&mut self, baseline: &Arc<Baseline>) -> Arc<Baseline> {
        if !baseline.window.frames().iter().any(|frame| frame.has_any_of(&self.ports)) {
            return baseline.clone();
        }
        if let Some([_, without]) = self.baseline.get(&Arc::as_ptr(baseline)) {
            return without.clone();
        }
        let window = Arc::new(baseline.window.map(|frame| self.frame(frame)));
        let without =
            Arc::new(Baseline { window, fresh: baseline.fresh, jobs: baseline.jobs.clone(), derived: Arc::default() });
        self.baseline.insert(Arc::as_ptr(baseline), [baseline.clone(), without.clone()]);
        without
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::history::History;
    use crate::model::fabric::Fabric;
    use crate::model::ports::Ports;
    use crate::model::signal::Signal;
    use crate::model::topology::Topology;

    #[test]
    fn only_removed_ports_lose_their_samples() {
        let mut history = History::default();
        for second in 0..40 {
            let mut frame = Frame::new(second * 1_000_000_000);
            (0..300).for_each(|port| frame.set(Signal::Tx, port, (port + 1) as f64));
            history.push(frame, 1, i64::MIN);
        }
        let fabric = Fabric::new(Topology::default(), Ports::default(), Vec::new());
        let (old, mut removed) = (history.baseline(&fabric, 0), RemovedPorts::new((0..128).chain([200]).collect()));
        let new = removed.baseline(&old);
        history.remove_ports(&mut removed);
        for baseline in [&new, &history.baseline(&fabric, 0)] {
            let kept = |port: &usize| baseline.window.mean(Signal::Tx, *port) == Some((port + 1) as f64);
            assert_eq!((0..300).filter(kept).count(), 300 - 129);
            assert!(!baseline.window.frames()[0].has_any_of(&removed.ports));
        }
        assert!(Arc::ptr_eq(&new, &removed.baseline(&old)), "what is shared stays shared");
        assert!(Arc::ptr_eq(&new.window.frames()[0], &history.baseline(&fabric, 0).window.frames()[0]));
        assert!(Arc::ptr_eq(&new, &removed.baseline(&new)), "there is nothing left to take away");
    }
}
