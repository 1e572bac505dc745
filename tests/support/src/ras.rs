//! A stand-in for the RAS service of NCCL, on a port of loopback: speaks the protocol of several versions, or misbehaves.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How the stand-in behaves.
#[derive(Debug, Clone)]
pub enum Behavior {
    /// Knows JSON (NCCL 2.28 and later); the status is this text.
    Json(String),
    /// Does not know JSON; the status is this text.
    Text(String),
    /// As [`Behavior::Json`], after a pause before the status.
    Slow(String, Duration),
    /// As [`Behavior::Json`], but the service ends after so many bytes of the status.
    Cut(String, usize),
    /// Another service, which answers each line with this one.
    Other(String),
    /// Accepts and never answers.
    Silent,
}

#[derive(Debug)]
struct Shared {
    behavior: Mutex<Behavior>,
    lines: Mutex<Vec<String>>,
    stopping: AtomicBool,
}

/// A running stand-in; ends when it is dropped.
#[derive(Debug)]
pub struct RasServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl RasServer {
    /// Starts it on a free port of loopback.
    ///
    /// # Panics
    /// When no port can be bound.
    pub fn start(behavior: Behavior) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap_or_else(|e| panic!("binding a port: {e}"));
        let address = listener.local_addr().unwrap_or_else(|e| panic!("address of the port: {e}"));
        let lines = Mutex::default();
        let shared = Arc::new(Shared { behavior: Mutex::new(behavior), lines, stopping: AtomicBool::new(false) });
        let inside = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if inside.stopping.load(Ordering::Relaxed) {
                    break;
                }
                let inside = Arc::clone(&inside);
                std::thread::spawn(move || _ = serve(&stream, &inside));
            }
        });
        Self { address, shared }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes how it behaves from the next connection on.
    pub fn set(&self, behavior: Behavior) {
        *lock(&self.shared.behavior) = behavior;
    }

    /// All lines that clients sent.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.shared.lines).clone()
    }
}

impl Drop for RasServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        _ = TcpStream::connect(self.address);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    let behavior = lock(&shared.behavior).clone();
    let mut json = false;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        lock(&shared.lines).push(line.clone());
        let knows_json = !matches!(behavior, Behavior::Text(_));
        let answer = match (&behavior, &*line) {
            (Behavior::Silent, _) => continue,
            (Behavior::Other(answer), _) => format!("{answer}\n"),
            (_, hello) if hello.starts_with("CLIENT PROTOCOL ") => "SERVER PROTOCOL 2\n".into(),
            (_, timeout) if timeout.starts_with("TIMEOUT ") => "OK\n".into(),
            (_, "SET FORMAT json") if knows_json => {
                json = true;
                "OK\n".into()
            }
            (_, "STATUS" | "VERBOSE STATUS") => return status(stream, &behavior, json),
            (_, other) => format!("ERROR: Unknown command {other}\n"),
        };
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn status(mut stream: &TcpStream, behavior: &Behavior, json: bool) -> std::io::Result<()> {
    match behavior {
        Behavior::Json(status) if json => stream.write_all(status.as_bytes()),
        Behavior::Text(status) if !json => stream.write_all(status.as_bytes()),
        Behavior::Slow(status, pause) => {
            std::thread::sleep(*pause);
            stream.write_all(status.as_bytes())
        }
        Behavior::Cut(status, bytes) => stream.write_all(&status.as_bytes()[..(*bytes).min(status.len())]),
        _ => Ok(()),
    }
}

/// A rank of a status that [`status_json`] writes.
#[derive(Debug, Clone)]
pub struct RasRank {
    /// Address of its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Its GPU.
    pub gpu: u32,
    /// Launched operations of the kind `AllReduce`; `None` if the process does not answer.
    pub launched: Option<u64>,
    /// Whether it is considered dead, if it does not answer.
    pub dead: bool,
}

/// Status of a job with one communicator, as NCCL of this version prints it: 2.28 leaves out a comma if ranks are missing.
pub fn status_json(version: &str, hash: u64, ranks: &[RasRank]) -> String {
    let comma = if version.starts_with("2.28") { "" } else { "," };
    let process = |(number, rank): (usize, &RasRank)| {
        let RasRank { host, pid, gpu, .. } = rank;
        format!("\"rank\": {number}, \"host\": \"{host}\", \"pid\": {pid}, \"cuda_dev\": {gpu}, \"nvml_dev\": {gpu}")
    };
    let answers = |rank: &RasRank| rank.launched.is_some();
    let live = ranks.iter().enumerate().filter(|(_, rank)| answers(rank)).map(|(number, rank)| {
        let launched = rank.launched.unwrap_or(0);
        format!(
            "{{ {}, \"status\": {{ \"init_state\": 0, \"async_error\": 0, \"finalize_called\": false, \"destroy_flag\": false, \
             \"abort_flag\": false }}, \"collective_counts\": {{ \"Broadcast\": 1, \"AllReduce\": {launched} }} }}",
            process((number, rank))
        )
    });
    let missing = ranks.iter().enumerate().filter(|(_, rank)| !answers(rank)).map(|(number, rank)| {
        format!(
            "{{ {}{comma} \"status\": {{ \"unresponsive\": true, \"considered_dead\": {} }} }}",
            process((number, rank)),
            rank.dead
        )
    });
    let (live, missing) = (live.collect::<Vec<_>>().join(",\n"), missing.collect::<Vec<_>>());
    format!(
        "{{ \"nccl_version\": \"{version}\", \"timestamp\": \"2026-06-19 06:55:57\", \"communicators_count\": 1,\n\
         \"communicators\": [ {{ \"hash\": \"{hash:#x}\", \"secondary_hash\": \"0x1:0x2\", \"size\": {}, \"ranks_count\": {}, \
         \"missing_ranks_count\": {}, \"ranks\": [\n{live}\n], \"missing_ranks\": [\n{}\n] }} ],\n\
         \"ras\": {{ \"collection_time_sec\": 0.001, \"timeouts_count\": 0 }} }}\n",
        ranks.len(),
        ranks.len() - missing.len(),
        missing.len(),
        missing.join(",\n")
    )
}
