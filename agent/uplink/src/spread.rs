//! Order of the collectors of a host by rendezvous hashing: hosts spread evenly, and if a collector is added or gone, only its
//! share of the hosts moves.

use std::cmp::Reverse;

/// Sorts URLs by the preference of a host, the most preferred first. Their order in the configuration does not matter.
pub(crate) fn prefer(host: &str, urls: &mut [String]) {
    urls.sort_by_cached_key(|url| (Reverse(score(host, url)), url.clone()));
}

/// A number that depends on all bytes of both: FNV-1a, then the finalizer of SplitMix64. Fixed for good, since agents of all
/// versions should agree.
fn score(host: &str, url: &str) -> u64 {
    let bytes = host.bytes().chain([0]).chain(url.trim_end_matches('/').bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(ingests: &[usize]) -> Vec<String> {
        ingests.iter().map(|n| format!("https://ingest-{n}.example:4317")).collect()
    }

    fn order(host: usize, ingests: &[usize]) -> Vec<String> {
        let mut urls = urls(ingests);
        prefer(&format!("gpu-{host:05}"), &mut urls);
        urls
    }

    #[test]
    fn hosts_spread_evenly_and_only_those_of_a_lost_collector_move() {
        let hosts = 0..10_000;
        let all = urls(&[1, 2, 3, 4]);
        for url in &all {
            let own = hosts.clone().filter(|host| order(*host, &[1, 2, 3, 4])[0] == *url).count();
            assert!((2300..=2700).contains(&own), "{url}: {own}");
        }
        // Those of a lost one spread over all others.
        let moved: Vec<usize> = hosts.clone().filter(|host| order(*host, &[1, 2, 3, 4])[0] == all[1]).collect();
        for other in [0, 2, 3] {
            let share = moved.iter().filter(|host| order(**host, &[1, 2, 3, 4])[1] == all[other]).count();
            assert!(share > moved.len() / 4, "{share} of {}", moved.len());
        }
        for host in hosts {
            let (four, three) = (order(host, &[1, 2, 3, 4]), order(host, &[4, 1, 3]));
            let rest: Vec<&String> = four.iter().filter(|url| **url != all[1]).collect();
            assert!(rest.into_iter().eq(&three), "the order of the others stays");
        }
    }

    #[test]
    fn scores_are_pinned() {
        assert_eq!(score("gpu-1", "https://a:4317"), score("gpu-1", "https://a:4317/"));
        assert_eq!(order(7, &[1, 2, 3]), urls(PINNED));
    }

    /// Order of host gpu-00007; agents of all versions agree on it.
    const PINNED: &[usize] = &[3, 1, 2];
}
