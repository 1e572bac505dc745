//! `ethtool -i` and `-S` by ioctl: netlink does not offer drivers' own statistics. Called by [`super::LiveKernel`].
//!
//! Each call takes the kernel's RTNL lock for as long as the driver works.

use std::io;
use std::sync::{Arc, Mutex};

use super::error::{call_error, malformed};
use super::netlink::{text, u32_at, u64_at};
use super::sys::Ethtool;
use crate::{CallError, DriverInfo, StatNames, intern};

const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
const SS_STATS: u32 = 1;
const NAME_BYTES: usize = 32;
/// Buffer size in bytes: 130,000 names; the longest known list has 20,000. Untouched pages cost no memory.
const CAPACITY: usize = 4 << 20;

/// Ethtool ioctl. Its socket is opened at first use; calls are serialized.
#[derive(Debug, Default)]
pub struct Ioctl(Mutex<Option<Ethtool>>);

impl Ioctl {
    fn with<T>(&self, what: &str, call: impl FnOnce(&mut Ethtool) -> Result<T, CallError>) -> Result<T, CallError> {
        // The next call overwrites whatever a panicked call left in the buffer.
        let mut slot = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ethtool = match &mut *slot {
            Some(ethtool) => ethtool,
            empty => empty.insert(Ethtool::new(CAPACITY).map_err(|e| call_error(what, e))?),
        };
        call(ethtool)
    }

    /// Driver, firmware and bus address.
    pub fn driver(&self, netdev: &str) -> Result<DriverInfo, CallError> {
        let what = format!("driver of {netdev} by ethtool");
        self.with(&what, |ethtool| {
            let answer = ethtool.call(netdev, &words(&[GDRVINFO])).map_err(|e| call_error(&what, e))?;
            Ok(driver_info(answer))
        })
    }

    /// Names of the statistics.
    pub fn stat_names(&self, netdev: &str) -> Result<StatNames, CallError> {
        let what = format!("names of statistics of {netdev} by ethtool");
        self.with(&what, |ethtool| {
            let count = count(ethtool, netdev).map_err(|e| call_error(&what, e))?;
            let request = words(&[GSTRINGS, SS_STATS, count]);
            // Also if the count is 0: only this call distinguishes a failing driver from one without statistics.
            let names = match ethtool.call(netdev, &request).map(names) {
                Ok(Some(names)) if !names.is_empty() => Ok(names),
                Ok(Some(_)) if count == 0 => {
                    Err(CallError::Unsupported { what: what.clone(), why: "the driver has no statistics".into() })
                }
                Ok(_) => Err(malformed(&what, "the list of statistics changed while it was read")),
                Err(error) => Err(too_long(&what, error)),
            };
            // Names are read once; their pages are not needed between samples.
            ethtool.release();
            names
        })
    }

    /// Values of the statistics whose names are `names`.
    pub fn stat_values(&self, netdev: &str, names: &StatNames, out: &mut Vec<u64>) -> Result<(), CallError> {
        let what = format!("statistics of {netdev} by ethtool");
        self.with(&what, |ethtool| {
            let had = names.len();
            let requested = u32::try_from(had).map_err(|e| call_error(&what, io::Error::other(e)))?;
            let answer = match ethtool.call(netdev, &words(&[GSTATS, requested])) {
                Ok(answer) => answer,
                Err(error) => return Err(too_long(&what, error)),
            };
            let has = u32_at(answer, 4).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            if has != had {
                // Some kernels answer 0 instead of overrunning a buffer made for `had` entries.
                let has = if has == 0 { count(ethtool, netdev).unwrap_or(0) as usize } else { has };
                return Err(CallError::ListChanged { what: what.clone(), had, has });
            }
            out.clear();
            out.extend((0..has).map_while(|i| u64_at(answer, 8 + i * 8)));
            // On mlx5, enabling PFC on another priority changes the names but not their number. Names are read after
            // the values, which detects a change before or during that read. Costs a copy but no firmware command.
            match ethtool.call(netdev, &words(&[GSTRINGS, SS_STATS, requested])) {
                Ok(answer) if same_names(answer, names) => Ok(()),
                Ok(_) => Err(CallError::ListChanged { what: what.clone(), had, has }),
                Err(error) => Err(too_long(&what, error)),
            }
        })
    }
}

/// Error of a call. EFAULT comes from the guard page: the list is longer than the buffer.
fn too_long(what: &str, error: io::Error) -> CallError {
    if error.raw_os_error() == Some(libc::EFAULT) {
        return malformed(what, &format!("the list is longer than {} bytes", CAPACITY));
    }
    call_error(what, error)
}

/// Current number of statistics.
fn count(ethtool: &mut Ethtool, netdev: &str) -> io::Result<u32> {
    let mut request = words(&[GSSET_INFO, 0]);
    request.extend((1_u64 << SS_STATS).to_ne_bytes());
    request.extend([0; 4]);
    let answer = ethtool.call(netdev, &request)?;
    // The kernel clears the bits of sets that the driver does not have.
    let has = u64_at(answer, 8).is_some_and(|mask| mask >> SS_STATS & 1 == 1);
    Ok(if has { u32_at(answer, 16).unwrap_or(0) } else { 0 })
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Strings of `struct ethtool_gstrings`.
fn strings(answer: &[u8]) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
    let count = usize::try_from(u32_at(answer, 8)?).ok()?;
    Some(answer.get(12..12 + count.checked_mul(NAME_BYTES)?)?.chunks_exact(NAME_BYTES))
}

pub(super) fn names(answer: &[u8]) -> Option<StatNames> {
    Some(strings(answer)?.map(|name| intern::shared(text(name).trim())).collect::<Vec<Arc<str>>>().into())
}

pub(super) fn same_names(answer: &[u8], names: &StatNames) -> bool {
    let same = |now: &[u8], name: &str| {
        let end = now.iter().position(|b| *b == 0).unwrap_or(now.len());
        now[..end].trim_ascii() == name.as_bytes() || text(now).trim() == name // the slow path allocates
    };
    strings(answer)
        .is_some_and(|now| now.len() == names.len() && now.zip(names.iter()).all(|(now, name)| same(now, name)))
}

/// Driver data of `struct ethtool_drvinfo`.
pub(super) fn driver_info(answer: &[u8]) -> DriverInfo {
    let field = |from: usize| answer.get(from..from + 32).map(|b| text(b).trim().to_owned()).unwrap_or_default();
    DriverInfo { driver: field(4), version: field(36), firmware: field(68), bus: field(100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_counted() {
        let mut answer = words(&[GSTRINGS, SS_STATS, 2]);
        for name in ["  TxOctets ", "[3]: rx_bytes"] {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(NAME_BYTES, 0);
            answer.extend(bytes);
        }
        let list = names(&answer).unwrap();
        assert_eq!(*list, ["TxOctets".into(), "[3]: rx_bytes".into()]);
        assert!(same_names(&answer, &list));
        let mut renamed = answer.clone();
        renamed[14] = b'R';
        assert!(!same_names(&renamed, &list), "same length, other names");
        answer[8..12].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(names(&answer), None);
        answer[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(names(&answer), None);
    }

    /// The kernel writes the whole list, regardless of the buffer's size: the guard page must stop it.
    #[test]
    fn a_list_that_outgrows_the_buffer_is_refused() {
        const SS_FEATURES: u32 = 4;
        let request = words(&[GSTRINGS, SS_FEATURES, 0]);
        let mut enough = Ethtool::new(CAPACITY).unwrap();
        let count = enough.call("lo", &request).unwrap()[8];
        assert!(count > 9, "features of lo: {count}");
        let mut small = Ethtool::new(256).unwrap();
        let error = small.call("lo", &request).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
        assert!(
            matches!(too_long("x", error), CallError::Failed { source, .. } if source.to_string().contains("longer"))
        );
        assert_eq!(small.call("lo", &[0; 257]).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let list: StatNames = [Arc::from("x")].into();
            let _ = (names(&bytes), same_names(&bytes, &list), driver_info(&bytes));
        }
    }
}
