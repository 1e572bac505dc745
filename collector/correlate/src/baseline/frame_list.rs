//! A list of frames that grows at one end and is cut at the other. Windows of it share the sums of groups of frames: a
//! window that slides by one frame adds up few frames again.

use crate::baseline::window::Window;
use crate::model::frame::Frame;
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

/// Frames of a group.
const GROUP: usize = 8;

/// Frames in order of time, read through [`Deref`].
#[derive(Default)]
pub(super) struct FrameList {
    frames: VecDeque<Arc<Frame>>,
    /// How many frames were dropped, which gives each frame a number that stays.
    dropped: usize,
    /// The state in which each frame was last checked; `None` after a change.
    checked: VecDeque<Option<u64>>,
    /// Groups of frames with consecutive numbers, from that of the oldest frame on, as far as they were asked for.
    groups: VecDeque<OnceLock<Arc<Window>>>,
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
        let groups = groups.map(|group| (group * GROUP - cut - span.start, self.group(group)));
        Window::new(self.frames.range(span.clone()).cloned().collect()).with_groups(groups.collect())
    }

    /// A group whose frames are all in the list.
    fn group(&self, at: usize) -> Arc<Window> {
        let first = at * GROUP - self.dropped % GROUP;
        let group = || Arc::new(Window::new(self.frames.range(first..first + GROUP).cloned().collect()));
        self.groups[at].get_or_init(group).clone()
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
            }
            for span in [0..list.len(), list.len() / 3..list.len(), list.len() / 5..list.len() * 4 / 5] {
                let (shared, plain) = (list.window(span.clone()), Window::new(list.range(span).cloned().collect()));
                for port in 0..4 {
                    assert_eq!(shared.mean(Signal::Tx, port), plain.mean(Signal::Tx, port), "{second} {port}");
                }
            }
        }
        list.replace(|_| frame(9));
        assert_eq!(list.window(0..30).mean(Signal::Tx, 2), Some(27.0));
    }
}
