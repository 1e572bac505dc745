//! User names from `etc/passwd`. No directory service is queried.

use fabriclens_agent_host::roots::Roots;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

/// Size limit of the part that is read.
const LIMIT: u64 = 8 << 20;
/// Limit of cached users.
const MOST: usize = 4096;

/// Cache of user names.
#[derive(Debug)]
pub struct Users {
    file: PathBuf,
    known: HashMap<u32, Option<String>>,
}

impl Users {
    /// Cache for this host.
    pub fn new(roots: &Roots) -> Self {
        Self { file: roots.base().join("etc/passwd"), known: HashMap::new() }
    }

    /// Name of a user, if the file has it.
    pub fn name(&mut self, uid: u32) -> Option<String> {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let file = &self.file;
        self.known.entry(uid).or_insert_with(|| look_up(file, uid)).clone()
    }
}

/// Looks up a line such as `ann:x:1000:100:Ann:/home/ann:/bin/sh`.
fn look_up(file: &PathBuf, uid: u32) -> Option<String> {
    // Opening a FIFO would block until there is a writer.
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
