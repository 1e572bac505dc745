//! What is made of files that others replace (certificates, tokens): made again when they changed.

use fabriclens_agent_host::batch::chain;
use std::error::Error;
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
pub struct Changed {
    files: Vec<PathBuf>,
    prints: Vec<Print>,
    looked: Instant,
    /// Why the files as they are cannot be used.
    failure: Option<String>,
}

impl Changed {
    /// As they are now; read them after this.
    pub fn new<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let files: Vec<PathBuf> = files.into_iter().map(Path::to_owned).collect();
        Self { prints: files.iter().map(|f| print(f)).collect(), files, looked: Instant::now(), failure: None }
    }

    /// What `load` makes of the files after each change; `None` while there is nothing new. What failed is tried again at
    /// each look, since it may have been for want of a descriptor, and told once. Looks once in five seconds, so it may be
    /// asked often.
    pub fn reload<T, E: Error>(&mut self, load: impl FnOnce() -> Result<T, E>) -> Option<Result<T, String>> {
        if self.looked.elapsed() < PACE { None } else { self.reload_now(load) }
    }

    /// The same, however soon.
    fn reload_now<T, E: Error>(&mut self, load: impl FnOnce() -> Result<T, E>) -> Option<Result<T, String>> {
        self.looked = Instant::now();
        let prints: Vec<Print> = self.files.iter().map(|f| print(f)).collect();
        let changed = prints != self.prints;
        if !changed && self.failure.is_none() {
            return None;
        }
        self.prints = prints;
        match load() {
            Ok(new) => {
                self.failure = None;
                Some(Ok(new))
            }
            Err(error) => {
                let error = chain(&error);
                let told = self.failure.replace(error.clone()).is_some() && !changed;
                (!told).then_some(Err(error))
            }
        }
    }

    /// Why files that changed are not in force.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
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
        let fine = || Ok::<_, std::io::Error>(7);
        assert_eq!(changed.reload_now(fine), None);
        link("b");
        assert_eq!(changed.reload(fine), None, "not so soon");
        assert_eq!((changed.reload_now(fine), changed.reload_now(fine)), (Some(Ok(7)), None));
        fs::remove_file(path("b")).expect("removed");
        assert_eq!((changed.reload_now(fine), changed.reload_now(fine)), (Some(Ok(7)), None));
    }

    /// Without a descriptor a good file cannot be read, and nothing about it changes when there is one again.
    #[test]
    fn what_failed_is_tried_again_until_it_works_and_told_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        let mut changed = Changed::new([file.as_path()]);
        fs::write(&file, "new").expect("written");
        let fails = |errno: rustix::io::Errno| move || Err::<String, _>(std::io::Error::from(errno));
        let told = changed.reload_now(fails(rustix::io::Errno::MFILE));
        assert!(told.is_some_and(|t| t.is_err_and(|e| e.contains("Too many open files"))), "the first time");
        for errno in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE] {
            assert_eq!(changed.reload_now(fails(errno)), None, "what goes on is not told again");
        }
        assert!(
            changed.failure().is_some_and(|why| why.contains("system")),
            "the present reason: {:?}",
            changed.failure()
        );
        assert_eq!(changed.reload_now(|| fs::read_to_string(&file)), Some(Ok("new".to_owned())));
        assert_eq!(changed.failure(), None);
        assert_eq!(changed.reload_now(|| fs::read_to_string(&file)), None);
    }
}
