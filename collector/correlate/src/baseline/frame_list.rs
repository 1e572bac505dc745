//! A list of frames that grows at one end and is cut at the other. Windows of it share the sums of groups of frames: a
//! window that slides by one frame adds up few frames again.

use crate::baseline::frame_group::{FrameGroup, GROUP};
use crate::baseline::window::Window;
use crate::model::frame::Frame;
use crate::model::signal::Signal;
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

/// Signals that are read when a frame is checked.
const CHECKED: [Signal; 3] = [Signal::Tx, Signal::Rx, Signal::Rate];

/// Frames in order of time, read through [`Deref`].
#[derive(Default)]
pub(super) struct FrameList {
    frames: VecDeque<Arc<Frame>>,
    /// How many frames were dropped, which gives each frame a number that stays.
    dropped: usize,
    /// The state in which each frame was last checked; `None` after a change.
    checked: VecDeque<Option<u64>>,
    /// Groups of frames with consecutive numbers, from that of the oldest frame on, as far as they were asked for.
    groups: VecDeque<OnceLock<Arc<FrameGroup>>>,
}

impl Deref for FrameList {
    type Target = VecDeque<Arc<Frame>>;

    fn deref(&self) -> &Self::Target {
        &self.frames
    }
}

impl FrameList {
    /// Appends a frame, and drops the oldest if there are more than `limit`.
    pub fn push(&mut self, frame: Arc<Frame>, limit: usize) {
        self.frames.push_back(frame);
        self.checked.push_back(None);
        if self.frames.len() > limit {
            self.frames.pop_front();
            self.checked.pop_front();
            self.dropped += 1;
            if self.dropped.is_multiple_of(GROUP) {
                self.groups.pop_front();
            }
        }
        let groups = (self.dropped % GROUP + self.frames.len()).div_ceil(GROUP);
        self.groups.resize_with(groups, OnceLock::new);
    }

    /// Shares the memory of what is in a frame as in the one before, unless windows have it already; `back` counts from the newest.
    pub fn share(&mut self, back: usize) {
        let mut newest = self.frames.iter_mut().rev().skip(back);
        if let (Some(frame), Some(before)) = (newest.next().and_then(Arc::get_mut), newest.next()) {
            frame.share(before);
        }
    }

    /// A frame to change. `None` beyond the end.
    pub fn change(&mut self, at: usize) -> Option<&mut Frame> {
        if let Some(group) = self.groups.get_mut((self.dropped % GROUP + at) / GROUP) {
            group.take();
        }
        if let Some(checked) = self.checked.get_mut(at) {
            *checked = None;
        }
        self.frames.get_mut(at).map(Arc::make_mut)
    }

    /// A frame of which one signal changes, so that all else that is known of it stays. `None` beyond the end.
    pub fn change_signal(&mut self, at: usize, signal: Signal) -> Option<&mut Frame> {
        if CHECKED.contains(&signal) {
            return self.change(at);
        }
        if let Some(group) = self.groups.get_mut((self.dropped % GROUP + at) / GROUP) {
            match group.get_mut().map(Arc::get_mut) {
                Some(Some(group)) => group.forget(signal),
                // Windows keep the sums of the frames that they have.
                Some(None) => _ = group.take(),
                None => {}
            }
        }
        self.frames.get_mut(at).map(Arc::make_mut)
    }

    /// Whether a frame was checked in this state and is unchanged since; from now on it is.
    pub fn check(&mut self, at: usize, state: u64) -> bool {
        self.checked[at].replace(state) == Some(state)
    }

    /// Replaces each frame.
    pub fn replace(&mut self, new: impl FnMut(&Arc<Frame>) -> Arc<Frame>) {
        self.frames = self.frames.iter().map(new).collect();
        self.checked.iter_mut().for_each(|checked| *checked = None);
        self.groups.iter_mut().for_each(|group| *group = OnceLock::new());
    }

    /// The frames of a span.
    pub fn window(&self, span: Range<usize>) -> Window {
        let cut = self.dropped % GROUP;
        let groups = (cut + span.start).div_ceil(GROUP)..(cut + span.end) / GROUP;
        let group = |at: usize| (at * GROUP - cut - span.start, self.groups[at].get_or_init(Arc::default).clone());
        let groups = groups.map(group);
        Window::new(self.frames.range(span.clone()).cloned().collect()).with_groups(groups.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::signal::Signal;

    fn frame(second: usize) -> Arc<Frame> {
        let mut frame = Frame::new(second as i64 * 1_000_000_000);
        (0..3).for_each(|port| frame.set(Signal::Tx, port, (second * (port + 1)) as f64));
        Arc::new(frame)
    }

    #[test]
    fn windows_with_groups_have_the_means_of_their_frames() {
        let mut list = FrameList::default();
        for second in 0..70 {
            list.push(frame(second), 37);
            if second % 5 == 3 && second > 20 {
                let at = list.len() - 7;
                list.change(at).unwrap().set(Signal::Tx, 1, second as f64);
                assert!(list.change(list.len()).is_none());
                list.change_signal(at - 9, Signal::Queue).unwrap().set(Signal::Queue, 2, second as f64);
            }
            for span in [0..list.len(), list.len() / 3..list.len(), list.len() / 5..list.len() * 4 / 5] {
                let (shared, plain) = (list.window(span.clone()), Window::new(list.range(span).cloned().collect()));
                for port in 0..4 {
                    let of = |window: &Window| [Signal::Tx, Signal::Queue].map(|signal| window.mean(signal, port));
                    assert_eq!(of(&shared), of(&plain), "{second} {port}");
                }
            }
        }
        let (before, kept) = (list.window(0..30), list.window(0..30).mean(Signal::Queue, 2));
        list.change_signal(9, Signal::Queue).unwrap().set(Signal::Queue, 2, 1e6);
        assert_eq!(before.mean(Signal::Queue, 2), kept, "it has the frames of its time");
        assert!(list.window(0..30).mean(Signal::Queue, 2) > kept);
        list.replace(|_| frame(9));
        assert_eq!(list.window(0..30).mean(Signal::Tx, 2), Some(27.0));
    }
}
