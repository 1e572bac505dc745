//! LLDP frames over a veth pair. Needs root and iproute2.

use fabriclens_kernel::live::LiveKernel;
use fabriclens_kernel::{CallError, KernelCalls, LldpNeighbor};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// Network namespace with a veth pair, `near` and `far`. Deleted on drop.
struct VethPair(String);

impl VethPair {
    fn new() -> Result<Self, String> {
        let pair = Self(format!("fl-lldp-{}", std::process::id()));
        ip(&["netns", "add", &pair.0])?;
        pair.ip(&["link", "add", "near", "type", "veth", "peer", "name", "far"])?;
        pair.ip(&["link", "set", "near", "up"])?;
        pair.ip(&["link", "set", "far", "up"])?;
        Ok(pair)
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), String> {
        ip(&[&["-n", self.0.as_str()], arguments].concat())
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0]);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test sets up what it listens on; the agent starts no process")]
fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|e| format!("ip: {e}; install iproute2"))?;
    let error = || format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(error()) }
}

/// LLDP frame of a switch, with its Ethernet header. `ttl` in seconds.
fn frame(switch: &str, port: &str, ttl: u8) -> Vec<u8> {
    let tlv = |kind: u8, value: &[u8]| [&[kind << 1, u8::try_from(value.len()).unwrap()], value].concat();
    let header = [0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    [
        header.to_vec(),
        tlv(1, &[4, 2, 0, 0, 0, 0, 1]),
        tlv(2, &[&[5], port.as_bytes()].concat()),
        tlv(3, &[0, ttl]),
        tlv(5, switch.as_bytes()),
        vec![0, 0],
    ]
    .concat()
}

/// Sends an Ethernet frame on an interface of this thread's network namespace.
fn send(netdev: &str, frame: &[u8]) {
    let name = std::ffi::CString::new(netdev).unwrap();
    // SAFETY: address and frame outlive the calls, and the descriptor has one owner.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let fd = OwnedFd::from_raw_fd(fd);
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
        to.sll_ifindex = i32::try_from(libc::if_nametoindex(name.as_ptr())).unwrap();
        to.sll_halen = 6;
        let length = u32::try_from(size_of_val(&to)).unwrap();
        let sent = libc::sendto(fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, (&raw const to).cast(), length);
        assert_eq!(usize::try_from(sent), Ok(frame.len()), "{}", std::io::Error::last_os_error());
    }
}

fn no_frame(answer: Result<LldpNeighbor, CallError>) -> bool {
    matches!(&answer, Err(CallError::Unsupported { why, .. }) if why.starts_with("no frame received"))
}

/// Waits up to 20 s for an expected result.
fn wait_until(live: &LiveKernel, wanted: impl Fn(&Result<LldpNeighbor, CallError>) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = live.lldp_neighbor("near");
        if wanted(&answer) {
            return;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is(switch: &str, port: &str) -> impl Fn(&Result<LldpNeighbor, CallError>) -> bool {
    let wanted = LldpNeighbor { switch: switch.into(), port: port.into(), address: None };
    move |answer| answer.as_ref().is_ok_and(|neighbor| *neighbor == wanted)
}

#[test]
#[ignore = "needs: network-namespaces"]
fn neighbor_is_learned_replaced_and_expired() {
    let pair = VethPair::new().unwrap();
    let namespace = File::open(format!("/run/netns/{}", pair.0)).unwrap();
    // SAFETY: no memory is passed; only this thread enters the namespace.
    assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
    let live = LiveKernel::default();
    assert!(no_frame(live.lldp_neighbor("near")));
    send("far", &frame("leaf1", "swp3", 120));
    wait_until(&live, is("leaf1", "swp3"));
    // A truncated frame is ignored.
    send("far", &frame("leaf9", "swp9", 120)[..20]);
    assert!(is("leaf1", "swp3")(&live.lldp_neighbor("near")));
    // After recabling the newest neighbor wins.
    send("far", &frame("leaf2", "swp9", 1));
    wait_until(&live, is("leaf2", "swp9"));
    // It expires; the earlier one is still valid, until it announces its shutdown.
    wait_until(&live, is("leaf1", "swp3"));
    send("far", &frame("leaf1", "swp3", 0));
    wait_until(&live, |answer| matches!(answer, Err(CallError::Unsupported { .. })));
    // The interface goes down, then is deleted.
    pair.ip(&["link", "set", "near", "down"]).unwrap();
    assert!(no_frame(live.lldp_neighbor("near")));
    pair.ip(&["link", "del", "near"]).unwrap();
    assert!(matches!(live.lldp_neighbor("near"), Err(CallError::Gone { .. })));
}
