//! Samples that come too late to be judged as they arrive: what stretches of time they tell of, so that these are judged
//! again. Agents send what is live first and what they kept beside it, so what is late is older than what its series has told
//! already. Others send all in order and catch up; a clock that is wrong does neither, and makes nothing late.

use std::collections::HashMap;

/// Samples out of order that are older than this were kept by an agent while nobody took them, ms. What is younger is judged
/// as it comes.
const KEPT_MS: i64 = 20_000;
/// Samples in order that are older than this find no frame, ms.
const BEHIND_MS: i64 = 120_000;
/// Stretches that are nearer to each other than this are one, ms.
const JOIN_MS: i64 = 60_000;
/// Stretches until somebody takes them, and senders that are behind, at most: what finds no room is not judged again.
const MOST: usize = 64;
const MOST_BEHIND: usize = 1 << 17;

/// See the module. Instants are Unix ms.
#[derive(Default)]
pub(crate) struct LateSamples {
    /// First and last instant that was told by those who are behind and may catch up.
    behind: HashMap<u64, [i64; 2]>,
    told: TimeSpans,
}

/// Stretches of time, from their first to their last instant (Unix ms): those that are near to each other are one, and what
/// finds no room is left out.
#[derive(Default)]
pub struct TimeSpans(Vec<[i64; 2]>);

impl TimeSpans {
    /// One more.
    pub fn add(&mut self, [from, to]: [i64; 2]) {
        let near = |one: &&mut [i64; 2]| from <= one[1] + JOIN_MS && to >= one[0] - JOIN_MS;
        if let Some(one) = self.0.iter_mut().find(near) {
            *one = [one[0].min(from), one[1].max(to)];
        } else if self.0.len() < MOST {
            self.0.push([from, to]);
        }
    }

    /// Those since the last time.
    pub fn take(&mut self) -> Vec<[i64; 2]> {
        std::mem::take(&mut self.0)
    }
}

impl LateSamples {
    /// A sample of `who`, whose newest before it and the frame of now are given.
    pub(crate) fn note(&mut self, who: u64, time_ms: i64, newest_ms: i64, now_ms: i64) {
        let age = now_ms.saturating_sub(time_ms);
        if time_ms < newest_ms {
            if age > KEPT_MS {
                self.told.add([time_ms, time_ms]);
            }
        } else if age > BEHIND_MS {
            if self.behind.len() < MOST_BEHIND || self.behind.contains_key(&who) {
                self.behind.entry(who).or_insert([time_ms, time_ms])[1] = time_ms;
            }
        } else if !self.behind.is_empty()
            && let Some(stretch) = self.behind.remove(&who)
        {
            self.told.add(stretch);
        }
    }

    /// First and last instant of each stretch since the last time.
    pub(crate) fn take(&mut self) -> Vec<[i64; 2]> {
        self.told.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 10_000_000;

    #[test]
    fn what_was_kept_comes_beside_what_is_live() {
        let mut late = LateSamples::default();
        for ago in (60..600).rev() {
            late.note(1, NOW - ago * 1000, NOW - 1000, NOW);
            late.note(2, NOW - 1000, NOW - 2000, NOW);
        }
        assert_eq!(late.take(), [[NOW - 599_000, NOW - 60_000]]);
        assert!(late.take().is_empty(), "told once");
        // A little out of order, or the same again.
        late.note(1, NOW - 15_000, NOW - 1000, NOW);
        late.note(1, NOW - 90_000, NOW - 90_000, NOW);
        assert!(late.take().is_empty());
    }

    #[test]
    fn who_sends_in_order_is_late_once_it_has_caught_up_and_a_wrong_clock_never_is() {
        let mut late = LateSamples::default();
        let mut newest = i64::MIN;
        for second in 0..700 {
            // Ten seconds of samples in each second.
            let now = NOW + second * 1000;
            let time = (NOW - 600_000 + second * 10_000).min(now);
            late.note(1, time, newest, now);
            newest = time;
            late.note(2, now - 600_000, now - 601_000, now);
            let told = late.take();
            if !told.is_empty() {
                let last = (0..)
                    .map(|n| NOW - 600_000 + n * 10_000)
                    .zip(0..)
                    .take_while(|(t, n)| NOW + n * 1000 - t > BEHIND_MS);
                assert_eq!(told, [[NOW - 600_000, last.last().unwrap().0]]);
                assert!(late.behind.contains_key(&2), "who never catches up waits");
                return;
            }
        }
        panic!("it has caught up");
    }

    #[test]
    fn it_is_bounded() {
        let mut late = LateSamples::default();
        (0..1000).for_each(|n| late.note(1, n * 1_000_000, NOW * 1000, NOW * 1000));
        assert_eq!(late.take().len(), MOST);
    }
}
