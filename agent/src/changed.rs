//! Whether files that others replace (certificates, tokens) are still those that were read.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks.
const PACE: Duration = Duration::from_secs(5);

/// What tells a file from the one that was there before: device, inode, length, times of contents and of mode.
type Print = Option<[i64; 7]>;

/// Files, and what they were.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    files: Vec<PathBuf>,
    prints: Vec<Print>,
    looked: Instant,
}

impl Changed {
    /// As they are now; read them after this.
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let files: Vec<PathBuf> = files.into_iter().map(Path::to_owned).collect();
        Self { prints: files.iter().map(|f| print(f)).collect(), files, looked: Instant::now() }
    }

    /// True once after each change. Looks once in five seconds, so it may be asked often.
    pub(crate) fn look(&mut self) -> bool {
        self.looked.elapsed() >= PACE && self.look_now()
    }

    /// The same, however soon.
    pub(crate) fn look_now(&mut self) -> bool {
        self.looked = Instant::now();
        let prints: Vec<Print> = self.files.iter().map(|f| print(f)).collect();
        let changed = prints != self.prints;
        self.prints = prints;
        changed
    }
}

fn print(path: &Path) -> Print {
    let m = fs::metadata(path).ok()?;
    let id = [m.dev(), m.ino(), m.len()].map(u64::cast_signed);
    Some([id[0], id[1], id[2], m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_and_a_swapped_link_are_changes_and_are_told_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let link = |to: &str| {
            std::os::unix::fs::symlink(path(to), path("new")).expect("linked");
            fs::rename(path("new"), path("link")).expect("swapped");
        };
        fs::write(path("a"), "same").expect("written");
        fs::write(path("b"), "same").expect("written");
        link("a");
        let mut changed = Changed::new([path("link").as_path()]);
        assert!(!changed.look_now());
        link("b");
        assert!(!changed.look(), "not so soon");
        assert!(changed.look_now() && !changed.look_now());
        fs::remove_file(path("b")).expect("removed");
        assert!(changed.look_now() && !changed.look_now());
    }
}
