//! A procfs written for a test: processes of jobs, their sockets and network namespaces.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A procfs in a temporary directory.
pub struct Procfs(tempfile::TempDir);

impl Procfs {
    /// A host with this address and no processes.
    pub fn new(address: &str) -> Self {
        let procfs = Self(tempfile::tempdir().unwrap());
        procfs.address("self", address);
        procfs
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn address(&self, of: &str, address: &str) {
        let trie = format!(
            "Main:\n  +-- 10.0.0.0/24 2 0 2\n     |-- {address}\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n"
        );
        self.write(&format!("{of}/net/fib_trie"), &trie);
    }

    /// Adds a process without descriptors.
    pub fn process(&self, pid: u32, uid: u32, cgroup: &str) {
        self.write(&format!("{pid}/cgroup"), cgroup);
        self.write(
            &format!("{pid}/status"),
            &format!("Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\n"),
        );
        std::fs::create_dir_all(self.path().join(format!("{pid}/fd"))).unwrap();
    }

    /// The process (or `self`) sees this one listening socket.
    pub fn listen(&self, of: &str, address: SocketAddr, uid: u32, inode: u64) {
        let SocketAddr::V4(address) = address else { panic!("{address} is not of version 4") };
        let (ip, port) = (u32::from_ne_bytes(address.ip().octets()), address.port());
        let row = format!(
            "   0: {ip:08X}:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {uid} 0 {inode} 1 0 100 0 0 10 0\n"
        );
        self.write(&format!("{of}/net/tcp"), &format!("  sl  local_address rem_address   st\n{row}"));
    }

    /// Replaces the descriptors of the process by one.
    pub fn descriptor(&self, pid: u32, link: &str) {
        let dir = self.path().join(format!("{pid}/fd"));
        std::fs::remove_dir_all(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        symlink(link, dir.join("3")).unwrap();
    }

    /// Makes a symbolic link.
    pub fn link(&self, path: &str, target: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// Removes a file or directory.
    pub fn remove(&self, path: &str) {
        let path = self.path().join(path);
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}
