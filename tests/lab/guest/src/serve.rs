//! Answers the requests of [`fabriclens_guest`]: one thread per connection, one process group per command.

use fabriclens_guest::{Frame, Op, PORT, READY, read_bytes, read_u32};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Directories of the guest's programs.
pub const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Time for which background processes of a finished command may still write output.
const LINGER: Duration = Duration::from_millis(100);

/// Accepts connections without end; announces it on the console first.
pub fn run() -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT))?;
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    crate::say(&format!("{READY} uptime={}", uptime.split(' ').next().unwrap_or("")));
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            if let Err(error) = answer(&stream) {
                let mut to = &stream;
                let _ = Frame::Err(error.to_string().into_bytes()).write(&mut to);
                let _ = Frame::Exit(255).write(&mut to);
            }
            // Fails if the peer has already disconnected.
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

fn answer(stream: &TcpStream) -> io::Result<()> {
    let mut from = stream;
    let mut op = [0];
    from.read_exact(&mut op)?;
    match Op::from_byte(op[0])? {
        Op::Exec => return exec(stream, &String::from_utf8_lossy(&read_bytes(&mut from)?)),
        Op::Put => {
            let path = String::from_utf8_lossy(&read_bytes(&mut from)?).into_owned();
            let mode = read_u32(&mut from)?;
            put(Path::new(&path), mode, &mut from)?;
        }
        Op::Now => {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            let text = format!("{}{:09}", now.tv_sec, now.tv_nsec);
            Frame::Out(text.into_bytes()).write(&mut from)?;
        }
        Op::Clock => {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes)?;
            let ns = u64::from_le_bytes(bytes);
            rustix::time::clock_settime(
                rustix::time::ClockId::Realtime,
                rustix::time::Timespec {
                    tv_sec: (ns / 1_000_000_000).cast_signed(),
                    tv_nsec: (ns % 1_000_000_000).cast_signed(),
                },
            )?;
        }
    }
    Frame::Exit(0).write(&mut from)
}

fn put(path: &Path, mode: u32, from: &mut impl Read) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::create(path)?;
    io::copy(from, &mut file)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn exec(stream: &TcpStream, script: &str) -> io::Result<()> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let (send, frames) = sync_channel(16);
    if let Some(out) = child.stdout.take() {
        pump(out, Frame::Out, send.clone());
    }
    if let Some(err) = child.stderr.take() {
        pump(err, Frame::Err, send.clone());
    }
    watch_hangup(stream, &child)?;
    std::thread::spawn(move || {
        let status =
            child.wait().map_or(255, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        std::thread::sleep(LINGER);
        // Fails only if the peer has disconnected.
        let _ = send.send(Frame::Exit(status));
    });
    let mut to = stream;
    for frame in frames {
        frame.write(&mut to)?;
        if matches!(frame, Frame::Exit(_)) {
            break;
        }
    }
    Ok(())
}

fn pump(mut from: impl Read + Send + 'static, wrap: fn(Vec<u8>) -> Frame, to: SyncSender<Frame>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if to.send(wrap(buffer[..n].to_vec())).is_err() {
                break;
            }
        }
    });
}

/// Kills the command's process group when the test closes the connection early (its time-out).
fn watch_hangup(stream: &TcpStream, child: &Child) -> io::Result<()> {
    let mut stream = stream.try_clone()?;
    let group = rustix::process::Pid::from_child(child);
    std::thread::spawn(move || {
        let hung_up = !matches!(stream.read(&mut [0]), Ok(1..));
        // After a regular end the group is empty, and the signal has no effect.
        if hung_up {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = stream.flush();
    });
    Ok(())
}
