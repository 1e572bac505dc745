//! Error numbers of the kernel as [`CallError`]: one mapping for netlink and ioctl.

use std::io;

use crate::CallError;

/// What `source` means for the call named `what`.
pub fn call_error(what: impl Into<String>, source: io::Error) -> CallError {
    let what = what.into();
    match source.raw_os_error() {
        Some(
            libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT | libc::ENOSYS | libc::ENOTTY | libc::ENOENT
            // What some drivers return from ethtool calls: the kernel's internal ENOTSUPP.
            | 524,
        ) => CallError::Unsupported { what, why: source.to_string() },
        Some(libc::EPERM | libc::EACCES) => {
            CallError::Denied { what, remedy: "run as root, or with CAP_NET_ADMIN in the initial user namespace" }
        }
        Some(libc::ENODEV | libc::ENXIO) => CallError::Gone { what },
        _ => CallError::Failed { what, source },
    }
}

/// An answer that is not what the ABI says.
pub fn malformed(what: impl Into<String>, why: &str) -> CallError {
    CallError::Failed { what: what.into(), source: io::Error::new(io::ErrorKind::InvalidData, why.to_owned()) }
}
