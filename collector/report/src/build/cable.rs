//! Cables of the topology, as reports name them.

/// A cable, from the topology.
#[derive(Clone)]
pub struct Link {
    /// Its two ends.
    pub ends: [LinkEnd; 2],
}

/// One end of a cable.
#[derive(Clone)]
pub struct LinkEnd {
    /// Host or switch, as the label `host` of series.
    pub node: String,
    /// Port name of the topology: of a switch, the label `port` of series. `None` if it is unknown.
    pub port: Option<String>,
    /// Whether the node is a switch.
    pub is_switch: bool,
}

impl LinkEnd {
    /// The labels `host` and `port` of its series; `None` if it is no switch, or its port is unknown.
    pub(super) fn switch_port(&self) -> Option<Place<'_>> {
        self.port.as_deref().filter(|_| self.is_switch).map(|port| (self.node.as_str(), port))
    }
}

impl Link {
    /// Its name from its second end.
    pub(super) fn name_from_second(&self) -> String {
        let [a, b] = &self.ends;
        name_of([b, a])
    }
}

/// Switch and port.
pub(super) type Place<'a> = (&'a str, &'a str);

/// Both ends: `leaf-1 swp12 - spine-3 Ethernet80`. Unknown ports are omitted.
pub(super) fn name(link: &Link) -> String {
    let [a, b] = &link.ends;
    name_of([a, b])
}

fn name_of(ends: [&LinkEnd; 2]) -> String {
    let end = |end: &LinkEnd| match &end.port {
        None => end.node.clone(),
        Some(port) => format!("{} {port}", end.node),
    };
    ends.map(end).join(" - ")
}
