//! TCP/IP of the host: `/proc/net/snmp` and `/proc/net/netstat`, a line of names and a line of values per group.
//! Columns vary by kernel, so they are taken by name.

use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::sysfile::text;
use fabriclens_catalog::CounterSource;
use std::path::PathBuf;
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "tcpip",
    source: CounterSource::ProcNet,
    period: Period::Full,
    default: true,
    needs: "",
    applies: SamplingTarget::is_host,
    open,
};

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    // `net` links to `self/net`; in a mounted /proc of the host, process 1 has the host's namespace.
    let own = target.roots.proc().join("net");
    let host = target.roots.proc().join("1/net");
    let dir = if host.join("snmp").exists() { host } else { own };
    let mut opened = TcpIp { files: [dir.join("snmp"), dir.join("netstat")], lines: Vec::new(), names: Arc::from([]) };
    opened.sample(&[], &mut Batch::default())?;
    Ok(Box::new(opened))
}

struct TcpIp {
    files: [PathBuf; 2],
    /// Header lines from which `names` was made.
    lines: Vec<String>,
    names: Arc<[Arc<str>]>,
}

impl Sampler for TcpIp {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let mut headers = 0;
        let mut changed = false;
        let mut last = None;
        for file in &self.files {
            let content = match text(file) {
                Ok(content) => content,
                Err(error) => {
                    last = Some(error);
                    continue;
                }
            };
            let mut lines = content.lines();
            while let (Some(header), Some(values)) = (lines.next(), lines.next()) {
                let Some(values) = pair(header, values) else { continue };
                if self.lines.get(headers).map(String::as_str) != Some(header) {
                    self.lines.truncate(headers);
                    self.lines.push(header.to_string());
                    changed = true;
                }
                headers += 1;
                // Tcp/MaxConn is -1, not a counter.
                out.values.extend(values.map(|value| value.parse().ok()));
            }
        }
        changed |= self.lines.len() != headers;
        self.lines.truncate(headers);
        if changed {
            self.names = self.lines.iter().flat_map(|line| names(line)).collect();
        }
        match last {
            Some(error) if headers == 0 => return Err(error.into()),
            _ => out.set_names(&self.names),
        }
        Ok(())
    }
}

/// Values of a group, if both lines belong together and have the same length.
fn pair<'a>(header: &str, values: &'a str) -> Option<impl Iterator<Item = &'a str>> {
    let (group, names) = header.split_once(':')?;
    let (same, values) = values.split_once(':')?;
    let fits = group == same && names.split_ascii_whitespace().count() == values.split_ascii_whitespace().count();
    fits.then(|| values.split_ascii_whitespace())
}

fn names(header: &str) -> Vec<Arc<str>> {
    let Some((group, names)) = header.split_once(':') else { return Vec::new() };
    names.split_ascii_whitespace().map(|name| format!("{group}/{name}").into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_by_name_and_broken_ones_left_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("snmp"), "Tcp: MaxConn InSegs\nTcp: -1 7\nUdp: A B\nUdp: 1\nIp: X\nIp: 3\n")
            .unwrap();
        let mut sampler = TcpIp {
            files: [dir.path().join("snmp"), dir.path().join("none")],
            lines: Vec::new(),
            names: Arc::from([]),
        };
        let mut batch = Batch::default();
        sampler.sample(&[], &mut batch).unwrap();
        let names: Vec<&str> = batch.names().iter().map(AsRef::as_ref).collect();
        assert_eq!(names, ["Tcp/MaxConn", "Tcp/InSegs", "Ip/X"]);
        assert_eq!(batch.values, [None, Some(7), Some(3)]);
    }
}
