//! `/dev/infiniband/umadN`: sends management datagrams (MADs) from an InfiniBand port and receives the replies.
//!
//! The device is a file: each read and write is a header of 64 bytes (`struct ib_user_mad_hdr`) and a MAD. Two ioctls
//! set it up. The kernel matches replies to requests by the upper half of the transaction's number, which it sets.

use super::error::call_error;
use crate::CallError;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

/// `IB_USER_MAD_ENABLE_PKEY`: the header has a partition key's index. Must be the first call.
const ENABLE_PKEY: libc::Ioctl = 0x1b03;
/// `IB_USER_MAD_REGISTER_AGENT2`: `_IOWR(0x1b, 4, struct ib_user_mad_reg_req2)`, whose size is 40.
const REGISTER_AGENT2: libc::Ioctl = 0xc028_1b04_u32 as libc::Ioctl;
/// Bytes of the header.
const HEADER: usize = 64;
/// Bytes of a MAD.
const MAD: usize = 256;
/// Key of the queue pair for general services, big endian.
const GENERAL_KEY: u32 = 0x8001_0000;
/// Remedy if the device's file mode or owner, a device policy or a namespace keeps the agent out.
const GRANT: &str = "let the agent read and write the device (docs/infiniband.md)";
/// Remedy if the file mode permits what the sandbox denies: the directory of the devices is newer than the sandbox.
const RESTART: &str = "restart the agent, whose sandbox is older than /dev/infiniband (docs/infiniband.md)";
/// Management classes of both agents: subnet management by directed route, performance management.
const CLASSES: [(u32, u8); 2] = [(0, 0x81), (1, 0x04)];

/// `struct ib_user_mad_reg_req2`.
#[repr(C)]
#[derive(Default)]
struct Registration {
    id: u32,
    queue_pair: u32,
    class: u8,
    version: u8,
    reserved: u16,
    flags: u32,
    methods: [u64; 2],
    oui: u32,
    segmented: u8,
    padding: [u8; 3],
}

/// An open port. It receives replies to its own requests, and nothing unsolicited.
#[derive(Debug)]
pub struct Umad {
    /// One device, or two if one does subnet management and another the general services of a port.
    files: Vec<File>,
    /// Agents at queue pair 0 and at queue pair 1.
    agents: [Agent; 2],
    timeout_ms: u32,
}

/// A registered agent.
#[derive(Clone, Copy, Debug, Default)]
struct Agent {
    /// Index of its device.
    file: usize,
    /// The kernel's number.
    id: u32,
}

impl Umad {
    /// Opens the devices for subnet management and for general services; they may be the same. Replies later than `timeout`
    /// are discarded by the kernel.
    ///
    /// # Errors
    /// `Denied` without read and write permission, with the remedy: the file's mode, or a restart if only the sandbox denies
    /// it. `Unsupported` before Linux 3.18.
    pub fn open(subnet: &Path, general: &Path, timeout: Duration) -> Result<Self, CallError> {
        let mut files = vec![device(subnet)?];
        if general != subnet {
            files.push(device(general)?);
        }
        let mut agents = [Agent::default(); 2];
        let places = [(0, subnet), (files.len() - 1, general)];
        for ((agent, (file, path)), (queue_pair, class)) in agents.iter_mut().zip(places).zip(CLASSES) {
            let mut wanted = Registration { queue_pair, class, version: 1, ..Registration::default() };
            // SAFETY: the kernel reads and writes one `ib_user_mad_reg_req2`, whose layout `Registration` has.
            let done = unsafe { libc::ioctl(files[file].as_raw_fd(), REGISTER_AGENT2, &raw mut wanted) };
            check(done).map_err(|error| call_error(path.display().to_string(), error))?;
            *agent = Agent { file, id: wanted.id };
        }
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
        Ok(Self { files, agents, timeout_ms })
    }

    /// Sends a MAD to queue pair 0 or 1 of the port with this LID (0xffff for a directed route).
    ///
    /// # Errors
    /// `WouldBlock` if the kernel's queue is full; others if the port is gone.
    pub fn send(&mut self, queue_pair: u32, lid: u16, mad: &[u8; MAD]) -> io::Result<()> {
        let mut packet = [0; HEADER + MAD];
        let general = queue_pair != 0;
        let agent = self.agents[usize::from(general)];
        packet[..4].copy_from_slice(&agent.id.to_ne_bytes());
        packet[8..12].copy_from_slice(&self.timeout_ms.to_ne_bytes());
        packet[20..24].copy_from_slice(&queue_pair.to_be_bytes());
        if general {
            packet[24..28].copy_from_slice(&GENERAL_KEY.to_be_bytes());
        }
        packet[28..30].copy_from_slice(&lid.to_be_bytes());
        packet[HEADER..].copy_from_slice(mad);
        self.files[agent.file].write(&packet).map(|_| ())
    }

    /// Waits up to `wait` for a reply; its MAD replaces `into`. The kernel's reports of requests that timed out are
    /// skipped: the caller has its own deadline for each request.
    ///
    /// # Errors
    /// The port is gone.
    pub fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        let poll = |file: &File| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // The second one is ignored by the kernel if there is no second device.
        let mut polls = [libc::pollfd { fd: -1, events: 0, revents: 0 }; 2];
        polls.iter_mut().zip(&self.files).for_each(|(entry, file)| *entry = poll(file));
        let time = libc::timespec {
            tv_sec: i32::try_from(wait.as_secs()).unwrap_or(i32::MAX).into(),
            tv_nsec: wait.subsec_nanos().into(),
        };
        // SAFETY: two pollfds and one timespec, all live during the call; no signal mask.
        match check(unsafe { libc::ppoll(polls.as_mut_ptr(), 2, &raw const time, std::ptr::null()) }) {
            Ok(0) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            done => done?,
        };
        let mut packet = [0; HEADER + MAD];
        for file in &mut self.files {
            loop {
                match file.read(&mut packet) {
                    // The kernel's status of the request, ETIMEDOUT.
                    Ok(_) if packet[4..8] != [0; 4] => {}
                    Ok(read) => {
                        into.clear();
                        into.extend(packet.get(HEADER..read).unwrap_or_default());
                        return Ok(Some(()));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }
}

/// Opens a device and selects the form of its header.
fn device(path: &Path) -> Result<File, CallError> {
    let what = || path.display().to_string();
    let opened = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EACCES) if mode_permits(path) => CallError::Denied { what: what(), remedy: RESTART },
        Some(libc::EPERM | libc::EACCES) => CallError::Denied { what: what(), remedy: GRANT },
        _ => call_error(what(), error),
    })?;
    // SAFETY: the request takes no argument.
    check(unsafe { libc::ioctl(file.as_raw_fd(), ENABLE_PKEY) }).map_err(|error| call_error(what(), error))?;
    Ok(file)
}

/// Whether mode and owner of a file permit reading and writing it; no sandbox is asked.
fn mode_permits(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a string that ends with zero and lives during the call.
    unsafe { libc::access(path.as_ptr(), libc::R_OK | libc::W_OK) == 0 }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests;
