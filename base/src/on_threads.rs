//! The same work on several threads.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Does the work of each part on at most `threads` threads, of which the caller's is one; the results come in the order of the
/// parts. Where no further thread can be started, the others do its work. A panic of the work goes on in the caller.
pub fn on_threads<P: Send, T: Send>(parts: Vec<P>, threads: usize, work: impl Fn(P) -> T + Sync) -> Vec<T> {
    let more = threads.min(parts.len()).saturating_sub(1);
    let left = Mutex::new(parts.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || std::iter::from_fn(|| next().map(|(at, part)| (at, work(part)))).collect::<Vec<_>>();
    let mut all = scope(|scope| {
        let others: Vec<_> = (0..more).filter_map(|_| Builder::new().spawn_scoped(scope, run).ok()).collect();
        let mut all = run();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_their_parts() {
        for threads in 0..7 {
            assert_eq!(on_threads((0..5).collect(), threads, |n: usize| n * n), [0, 1, 4, 9, 16]);
        }
        assert!(on_threads(Vec::<usize>::new(), 3, |n| n).is_empty());
    }
}
