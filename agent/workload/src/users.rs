//! Names of users, from `etc/passwd`: the agent asks no directory service.

use fabriclens_agent_host::roots::Roots;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

/// Most of the file that is read.
const LIMIT: u64 = 8 << 20;
/// Users that are remembered at most.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Users {
    file: PathBuf,
    known: HashMap<u32, Option<String>>,
}

impl Users {
    /// Of that host.
    pub fn new(roots: &Roots) -> Self {
        Self { file: roots.base().join("etc/passwd"), known: HashMap::new() }
    }

    /// The name of a user, where the file has it.
    pub fn name(&mut self, uid: u32) -> Option<String> {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let file = &self.file;
        self.known.entry(uid).or_insert_with(|| look_up(file, uid)).clone()
    }
}

/// `ann:x:1000:100:Ann:/home/ann:/bin/sh`
fn look_up(file: &PathBuf, uid: u32) -> Option<String> {
    // Opening a FIFO would wait for a writer.
    let file =
        std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).and_then(|_| std::fs::File::open(file).ok())?;
    let lines = BufReader::new(file.take(LIMIT)).lines().map_while(Result::ok);
    lines.into_iter().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_roots() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("etc")).unwrap();
        std::fs::write(tree.path().join("etc/passwd"), "root:x:0:0::/:\n+::::::\nann:x:1000:1:A:/h:/s\nbob:x:x\n")
            .unwrap();
        let mut users = Users::new(&Roots::new(Some(tree.path().to_owned())));
        assert_eq!(
            (users.name(1000).as_deref(), users.name(0).as_deref(), users.name(7)),
            (Some("ann"), Some("root"), None)
        );
        assert_eq!(Users::new(&Roots::new(Some(tree.path().join("etc")))).name(0), None);
    }
}
