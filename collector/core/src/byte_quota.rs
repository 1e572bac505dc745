//! Bounds the bytes that clients hold (request bodies, answers): a limit for all clients together, and half of it for
//! each client.

use std::net::IpAddr;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::client_network::client_network;

/// A single client may hold at most the limit divided by this.
const CLIENT_FRACTION: usize = 2;

/// A limit on held bytes, shared by all clients of a listener.
pub struct ByteQuota {
    bytes: usize,
    held: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by: HashMap<IpAddr, usize>,
}

/// The request would exceed the limit of its client or of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl ByteQuota {
    /// Creates a quota of `bytes`.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, held: Mutex::default() })
    }

    /// Starts a lease of zero bytes for a client; the addresses of one IPv6 network are one client.
    pub fn of(self: &Arc<Self>, caller: IpAddr) -> Lease {
        Lease { quota: self.clone(), caller: client_network(caller), bytes: 0 }
    }

    /// Whether more than half of the quota is held.
    pub fn is_short(&self) -> bool {
        self.held.lock().all > self.bytes / 2
    }
}

/// Bytes held by one request; dropping it returns them.
pub struct Lease {
    quota: Arc<ByteQuota>,
    caller: IpAddr,
    bytes: usize,
}

impl Lease {
    /// Changes the lease to `bytes` in total.
    ///
    /// # Errors
    /// [`Full`]; the lease is unchanged.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Full> {
        let mut held = self.quota.held.lock();
        let own = held.by.get(&self.caller).copied().unwrap_or(0) - self.bytes + bytes;
        let all = held.all - self.bytes + bytes;
        if bytes > self.bytes && (all > self.quota.bytes || own > self.quota.bytes / CLIENT_FRACTION) {
            return Err(Full);
        }
        match own {
            0 => _ = held.by.remove(&self.caller),
            own => _ = held.by.insert(self.caller, own),
        }
        (held.all, self.bytes) = (all, bytes);
        Ok(())
    }

    /// Adds `bytes` to the lease.
    ///
    /// # Errors
    /// [`Full`]; the lease is unchanged.
    pub fn add(&mut self, bytes: usize) -> Result<(), Full> {
        self.hold(self.bytes + bytes)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Shrinking never fails.
        _ = self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_holds_at_most_half() {
        let quota = ByteQuota::new(100);
        let of = |ip: &str| quota.of(ip.parse().unwrap());
        let [mut a, mut b, mut c] = ["10.0.0.1", "10.0.0.1", "::ffff:10.0.0.2"].map(of);
        assert_eq!(
            (a.add(30), b.add(20), b.add(1)),
            (Ok(()), Ok(()), Err(Full)),
            "one client holds at most half, in any number of leases"
        );
        assert!(!quota.is_short());
        assert_eq!((c.add(51), c.add(50)), (Err(Full), Ok(())));
        assert_eq!((of("10.0.0.3").add(1), quota.is_short()), (Err(Full), true), "the quota is used up");
        assert_eq!((a.hold(10), b.add(20), c.hold(50)), (Ok(()), Ok(()), Ok(())), "released bytes can be leased again");
        drop((a, b, c));
        let left = { quota.held.lock().by.len() };
        assert_eq!((quota.held.lock().all, left), (0, 0), "clients without bytes leave no entry");
        let (mut near, mut far) = (of("2001:db8::1"), of("2001:db8::2"));
        assert_eq!((near.add(30), far.add(30)), (Ok(()), Err(Full)), "an IPv6 network is one client");
    }
}
