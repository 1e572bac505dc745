//! One port of the switch: frames from the guest go to the queues of other ports, its own queue goes to the guest.

use super::{Shared, State, frame};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

/// Longest frame that QEMU sends (with segmentation offload).
const MAX_FRAME: u32 = 1 << 20;

/// Interval at which a waiting thread checks whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// A paused sender may go on once the queue has drained to this share of the limit.
const RESUME: (usize, usize) = (3, 4);

/// Serves one guest after another until the switch stops.
pub fn accept(shared: &Shared, number: usize, listener: &UnixListener) {
    for stream in listener.incoming().flatten() {
        if shared.lock().stop {
            return;
        }
        shared.lock().ports[number].connected = true;
        thread::scope(|scope| {
            scope.spawn(|| send(shared, number, &stream));
            receive(shared, number, &stream);
            let mut state = shared.lock();
            let port = &mut state.ports[number];
            port.connected = false;
            port.queue.clear();
            port.queued = 0;
            drop(state);
            shared.changed.notify_all();
        });
        if shared.lock().stop {
            return;
        }
    }
}

fn receive(shared: &Shared, number: usize, mut stream: &UnixStream) {
    // The time-out lets the thread notice that the switch stops; it applies only between frames.
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut length = [0; 4];
    let mut have = 0;
    loop {
        match stream.read(&mut length[have..]) {
            Ok(0) => return,
            Ok(n) => have += n,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if shared.lock().stop {
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
            }
            Err(_) => return,
        }
        if have < length.len() {
            continue;
        }
        have = 0;
        let length = u32::from_be_bytes(length);
        if length > MAX_FRAME {
            return;
        }
        let mut bytes = vec![0; length as usize];
        let _ = stream.set_read_timeout(None);
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        let _ = stream.set_read_timeout(Some(PATIENCE));
        forward(shared, number, &bytes);
    }
}

fn forward(shared: &Shared, from: usize, bytes: &[u8]) {
    let Some((to, source)) = frame::addresses(bytes) else {
        return;
    };
    let mut state = shared.lock();
    if !state.ports[from].knobs.up {
        return;
    }
    state.ports[from].stats.received += 1;
    state.ports[from].stats.received_bytes += bytes.len() as u64;
    state.learned.insert(source, from);
    let known = state.learned.get(&to).copied().filter(|_| !frame::is_group(to));
    let outs = known.map_or(0..state.ports.len(), |port| port..port + 1);
    for out in outs.filter(|&out| out != from) {
        if frame::is_roce(bytes) && unlucky(&mut state, out) {
            state.ports[out].stats.lost += 1;
            continue;
        }
        if state.ports[out].knobs.lossless && full(&state, out, bytes.len()) {
            let start = Instant::now();
            state.ports[from].stats.pauses += 1;
            while above_resume(&state, out) && !state.stop {
                let waited = shared.changed.wait_timeout(state, PATIENCE);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            state.ports[from].stats.paused_us += start.elapsed().as_micros() as u64;
        }
        enqueue(&mut state, out, bytes.to_vec());
    }
    drop(state);
    shared.changed.notify_all();
}

fn enqueue(state: &mut State, out: usize, mut bytes: Vec<u8>) {
    if full(state, out, bytes.len()) || !state.ports[out].knobs.up || !state.ports[out].connected {
        state.ports[out].stats.dropped += 1;
        return;
    }
    let port = &mut state.ports[out];
    if port.knobs.mark_from.is_some_and(|from| port.queued >= from) && frame::mark_congestion(&mut bytes) {
        port.stats.marked += 1;
    }
    port.queued += bytes.len();
    port.queue.push_back(bytes);
}

fn full(state: &State, out: usize, more: usize) -> bool {
    state.ports[out].queued + more > state.ports[out].knobs.limit
}

fn above_resume(state: &State, out: usize) -> bool {
    let port = &state.ports[out];
    port.connected && port.knobs.up && port.queued > port.knobs.limit * RESUME.0 / RESUME.1
}

/// Xorshift: the same traffic loses the same packets in every run.
fn unlucky(state: &mut State, out: usize) -> bool {
    state.random ^= state.random << 13;
    state.random ^= state.random >> 7;
    state.random ^= state.random << 17;
    state.random % 1_000_000 < u64::from(state.ports[out].knobs.lose_per_million)
}

fn send(shared: &Shared, number: usize, mut stream: &UnixStream) {
    let mut next = Instant::now();
    loop {
        let mut state = shared.lock();
        while state.ports[number].queue.is_empty() {
            if state.stop || !state.ports[number].connected {
                return;
            }
            let waited = shared.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let port = &mut state.ports[number];
        let rate = port.knobs.rate;
        let bytes = port.queue.front().cloned().unwrap_or_default();
        drop(state);
        if let Some(rate) = rate.filter(|&rate| rate > 0) {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            next = next.max(Instant::now()) + Duration::from_secs_f64(bytes.len() as f64 / rate as f64);
        }
        let mut message = (bytes.len() as u32).to_be_bytes().to_vec();
        message.extend(&bytes);
        if stream.write_all(&message).is_err() {
            return;
        }
        let mut state = shared.lock();
        let port = &mut state.ports[number];
        // The queue is cleared when the guest disconnects.
        if port.queue.pop_front().is_some() {
            port.queued = port.queued.saturating_sub(bytes.len());
            port.stats.sent += 1;
            port.stats.sent_bytes += bytes.len() as u64;
        }
        drop(state);
        shared.changed.notify_all();
    }
}
