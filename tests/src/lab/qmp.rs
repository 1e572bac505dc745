//! QEMU's control socket: pull a cable, plug a device, inject a PCIe error.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

/// Runs one command on the control socket and returns its result.
///
/// # Errors
/// When QEMU has exited or rejects the command.
pub fn run(socket: &Path, command: &str, arguments: Value) -> Result<Value> {
    let mut stream = UnixStream::connect(socket).with_context(|| format!("connecting to {}", socket.display()))?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    lines.next().context("QEMU closed the control socket")??;
    for request in [json!({"execute": "qmp_capabilities"}), json!({"execute": command, "arguments": arguments})] {
        writeln!(stream, "{request}")?;
        loop {
            let line = lines.next().context("QEMU closed the control socket")??;
            let answer: Value = serde_json::from_str(&line).with_context(|| format!("QEMU said {line}"))?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU refused {request}: {error}");
            }
            // Events may come between request and answer.
            if let Some(value) = answer.get("return") {
                if request["execute"] == command {
                    return Ok(value.clone());
                }
                break;
            }
        }
    }
    bail!("QEMU did not answer {command}")
}
