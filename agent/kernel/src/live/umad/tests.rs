//! Tests without a device: a pair of sockets stands in for it.

use super::*;
use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

#[test]
fn layouts_are_those_of_the_kernel() {
    assert_eq!(size_of::<Registration>(), 40);
    assert_eq!(offset_of!(Registration, methods), 16);
    assert_eq!(offset_of!(Registration, oui), 32);
}

/// A device whose other end is the returned socket: one packet a read, as the kernel's.
fn device() -> (File, UnixDatagram) {
    let (device, kernel) = UnixDatagram::pair().expect("a pair of sockets");
    device.set_nonblocking(true).expect("not blocking");
    kernel.set_read_timeout(Some(Duration::from_secs(5))).expect("a deadline");
    (File::from(OwnedFd::from(device)), kernel)
}

/// A port with one device for everything.
fn port() -> (Umad, UnixDatagram) {
    let (file, kernel) = device();
    (Umad { files: vec![file], agents: [3, 4].map(|id| Agent { file: 0, id }), timeout_ms: 200 }, kernel)
}

/// A header with this status, then bytes of the MAD.
fn packet(status: i32, mad: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; HEADER];
    packet[4..8].copy_from_slice(&status.to_ne_bytes());
    packet.extend(mad);
    packet
}

#[test]
fn requests_that_timed_out_are_no_replies() {
    let (mut umad, kernel) = port();
    let (wait, mut mad) = (Duration::from_millis(1), vec![1]);
    assert_eq!(umad.receive(wait, &mut mad).expect("open"), None);
    kernel.send(&packet(libc::ETIMEDOUT, &[9; 24])).expect("sent");
    assert_eq!(umad.receive(wait, &mut mad).expect("open"), None);
    kernel.send(&packet(libc::ETIMEDOUT, &[9; 24])).expect("sent");
    kernel.send(&packet(0, &[7; MAD])).expect("sent");
    assert_eq!(umad.receive(wait, &mut mad).expect("open"), Some(()));
    assert_eq!(mad, [7; MAD]);
}

#[test]
fn requests_name_their_agent_queue_pair_and_deadline() {
    let (mut umad, kernel) = port();
    let mut packet = [0; 512];
    umad.send(0, 0xffff, &[5; MAD]).expect("sent");
    assert_eq!(kernel.recv(&mut packet).expect("received"), HEADER + MAD);
    assert_eq!((&packet[..4], &packet[8..12]), (&3_u32.to_ne_bytes()[..], &200_u32.to_ne_bytes()[..]));
    assert_eq!(packet[20..30], [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff], "queue pair, key, LID");
    umad.send(1, 9, &[5; MAD]).expect("sent");
    kernel.recv(&mut packet).expect("received");
    assert_eq!(packet[..4], 4_u32.to_ne_bytes());
    assert_eq!(packet[20..30], [0, 0, 0, 1, 0x80, 1, 0, 0, 0, 9]);
}

#[test]
fn a_pair_of_devices_divides_the_queue_pairs() {
    let ((subnet, kernel), (general, other_kernel)) = (device(), device());
    let agents = [Agent { file: 0, id: 3 }, Agent { file: 1, id: 3 }];
    let mut umad = Umad { files: vec![subnet, general], agents, timeout_ms: 200 };
    let (wait, mut mad) = (Duration::from_millis(1), Vec::new());
    umad.send(0, 0xffff, &[5; MAD]).expect("sent");
    umad.send(1, 9, &[6; MAD]).expect("sent");
    let mut packet = [0; 512];
    for (kernel, queue_pair, byte) in [(&kernel, 0, 5), (&other_kernel, 1, 6)] {
        assert_eq!(kernel.recv(&mut packet).expect("received"), HEADER + MAD);
        assert_eq!((packet[23], packet[HEADER]), (queue_pair, byte));
        kernel.send(&self::packet(0, &[byte; MAD])).expect("answered");
        assert_eq!(umad.receive(wait, &mut mad).expect("open"), Some(()));
        assert_eq!(mad, [byte; MAD]);
    }
    assert_eq!(umad.receive(wait, &mut mad).expect("open"), None);
}

#[test]
fn mode_of_a_file_decides_without_a_sandbox() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(mode_permits(dir.path()));
    assert!(!mode_permits(&dir.path().join("none")));
}

#[test]
fn a_file_that_is_no_umad_is_refused() {
    let open = |path| Umad::open(Path::new(path), Path::new(path), Duration::from_millis(100));
    let error = open("/dev/null").expect_err("not a umad");
    assert!(matches!(error, CallError::Unsupported { .. }), "{error}");
    let error = open("/dev/infiniband/none").expect_err("missing");
    assert!(matches!(error, CallError::Unsupported { .. }), "{error}");
}
