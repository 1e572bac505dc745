//! Tests of the switch with plain sockets in place of guests.

use super::*;
use fabriclens_testing::eventually;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// RoCEv2 frame of guest `from` to guest `to`, ECN-capable.
fn roce(from: u8, to: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0];
    frame.extend([0x45, 2, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([0xc0, 0, 0x12, 0xb7]);
    frame.resize(length, 0);
    frame
}

fn write(guest: &mut UnixStream, frame: &[u8]) {
    guest.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
    guest.write_all(frame).unwrap();
}

fn read(guest: &mut UnixStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    guest.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    guest.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn guests(switch: &Switch, count: usize) -> Vec<UnixStream> {
    (0..count)
        .map(|port| {
            let guest = UnixStream::connect(switch.socket(port)).unwrap();
            guest.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            until(|| switch.shared.lock().ports[port].connected);
            guest
        })
        .collect()
}

fn until(done: impl FnMut() -> bool) {
    eventually("the switch has counted it", Duration::from_secs(5), done);
}

#[test]
fn learns_addresses_and_floods_unknown_ones() {
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new(folder.path(), 3).unwrap();
    let mut guest = guests(&switch, 3);
    write(&mut guest[0], &roce(0, 1, 100));
    assert!(read(&mut guest[1]).is_some() && read(&mut guest[2]).is_some(), "unknown: to all");
    write(&mut guest[1], &roce(1, 0, 100));
    assert!(read(&mut guest[0]).is_some());
    assert!(read(&mut guest[2]).is_none(), "known: to one");
    assert_eq!(switch.stats(2).sent, 1);
    assert_eq!(switch.stats(0).received_bytes, 100);
}

#[test]
fn impairments_apply() {
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new(folder.path(), 2).unwrap();
    let mut guest = guests(&switch, 2);
    switch.turn(1, |port| port.lose_per_million = 1_000_000);
    write(&mut guest[0], &roce(0, 1, 100));
    until(|| switch.stats(1).lost == 1);
    switch.turn(1, |port| {
        port.lose_per_million = 0;
        port.mark_from = Some(0);
    });
    write(&mut guest[0], &roce(0, 1, 100));
    assert_eq!(read(&mut guest[1]).unwrap()[15] & 3, 3);
    assert_eq!(switch.stats(1).marked, 1);
    switch.turn(1, |port| port.limit = 50);
    write(&mut guest[0], &roce(0, 1, 100));
    until(|| switch.stats(1).dropped == 1);
    switch.turn(1, |port| port.up = false);
    write(&mut guest[1], &roce(1, 0, 100));
    assert!(read(&mut guest[0]).is_none(), "a port that is down passes nothing");
}

#[test]
fn lossless_port_blocks_the_sender() {
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new(folder.path(), 2).unwrap();
    let mut guest = guests(&switch, 2);
    switch.turn(1, |port| {
        port.lossless = true;
        port.limit = 5_000;
        port.rate = Some(200_000);
    });
    let mut receiver = guest.pop().unwrap();
    let reader = thread::spawn(move || (0..40).filter(|_| read(&mut receiver).is_some()).count());
    for _ in 0..40 {
        write(&mut guest[0], &roce(0, 1, 1_000));
    }
    assert_eq!(reader.join().unwrap(), 40);
    let sender = switch.stats(0);
    assert!(sender.pauses > 0 && sender.paused_us > 10_000, "{sender:?}");
    assert_eq!(switch.stats(1).dropped, 0);
}
