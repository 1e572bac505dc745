//! Maps error numbers of the kernel to [`CallError`], for netlink and ioctl.

use std::io;

use crate::CallError;

/// Error of the call named `what`.
pub fn call_error(what: impl Into<String>, source: io::Error) -> CallError {
    let what = what.into();
    match source.raw_os_error() {
        Some(
            libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT | libc::ENOSYS | libc::ENOTTY | libc::ENOENT
            // Some drivers return the kernel's internal ENOTSUPP from ethtool calls.
            | 524,
        ) => CallError::Unsupported { what, why: source.to_string() },
        Some(libc::EPERM | libc::EACCES) => {
            CallError::Denied { what, remedy: "run as root, or with CAP_NET_ADMIN in the initial user namespace" }
        }
        Some(libc::ENODEV | libc::ENXIO) => CallError::Gone { what },
        _ => CallError::Failed { what, source },
    }
}

/// Error for a reply that violates the ABI.
pub fn malformed(what: impl Into<String>, why: &str) -> CallError {
    CallError::Failed { what: what.into(), source: io::Error::new(io::ErrorKind::InvalidData, why.to_owned()) }
}
