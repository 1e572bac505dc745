//! Directed routes: the egress port of each hop from the local port.

/// Hops that a directed-route SMP has room for.
const MOST: usize = 63;

/// A directed route; empty for the local node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Route(Box<[u8]>);

impl Route {
    /// Route to the local node.
    pub fn local() -> Self {
        Self::default()
    }

    /// The route with one more hop, out of `port` of its last node; `None` if the datagram has no room for it.
    pub fn then(&self, port: u8) -> Option<Self> {
        (self.0.len() < MOST).then(|| Self(self.0.iter().copied().chain([port]).collect()))
    }

    /// Egress ports, in order.
    pub fn ports(&self) -> &[u8] {
        &self.0
    }

    /// Number of hops.
    #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
    pub fn hops(&self) -> u8 {
        self.0.len() as u8
    }
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0")?;
        self.0.iter().try_for_each(|port| write!(f, ",{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_route_is_longer_than_a_datagram_has_room_for() {
        let long = (0..63).try_fold(Route::local(), |route, _| route.then(2)).expect("63 hops");
        assert_eq!((long.hops(), long.then(2)), (63, None));
        assert_eq!(Route::local().then(1).and_then(|r| r.then(12)).expect("short").to_string(), "0,1,12");
    }
}
