//! Programs on the packet path of one interface, in both directions. For the sampler `microburst`.
//!
//! From Linux 6.6 on they are tcx links, which coexist with other programs and are removed with their file descriptors.
//! Older kernels only have `tc` filters there, which would outlive a killed agent; on those the program is the filter
//! of a packet socket that accepts no packet.

use crate::cost::Cost;
use crate::load::{absent, load, map, program};
use aya::maps::{MapData, PerCpuArray};
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, SchedClassifier, SocketFilter, TcAttachType};
use aya::{Ebpf, Pod};
use fabriclens_agent_host::batch::SampleError;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_kernel::live::PacketSocket;

/// Attach method of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMethod {
    /// tcx links in both directions.
    TcxLinks,
    /// Filter of a packet socket.
    PacketSocket,
}

/// Attach methods by preference.
pub const ATTACH_METHODS: &[AttachMethod] = &[AttachMethod::TcxLinks, AttachMethod::PacketSocket];

/// Link types by the kernel's number (`ARPHRD_`), with the length of their header in bytes; other types have none.
const LINKS: &[(&str, u32)] = &[("1", 14), ("772", 14), ("32", 4)];

/// Network interface, with the data that the probe needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// Interface name.
    pub name: String,
    /// Interface index; it changes if an interface is replaced by another one of the same name.
    pub index: u32,
    /// Length of the link header in bytes.
    pub link: u32,
    /// Link speed in bytes per second, if known.
    pub rate: Option<f64>,
}

impl Interface {
    /// Reads an interface from sysfs; `None` if there is none of this name.
    pub fn find(roots: &Roots, name: &str) -> Option<Self> {
        let dir = roots.sys().join("class/net").join(name);
        let number = |file: &str| maybe(&dir.join(file)).and_then(|text| text.trim().parse::<i64>().ok());
        let kind = maybe(&dir.join("type")).unwrap_or_default();
        let link = LINKS.iter().find(|(link, _)| *link == kind.trim()).map_or(0, |(_, bytes)| *bytes);
        let index = u32::try_from(number("ifindex")?).ok()?;
        let rate = number("speed").filter(|mbits| *mbits > 0).map(|mbits| mbits as f64 * 1e6 / 8.0);
        Some(Self { name: name.to_owned(), index, link, rate })
    }
}

/// An attached probe. Dropping it removes it from the kernel.
pub struct NetdevProbe {
    loaded: Ebpf,
    /// Cost of its programs.
    pub cost: Cost,
    method: AttachMethod,
    _socket: Option<PacketSocket>,
}

impl NetdevProbe {
    /// Loads `object` for one interface and attaches it by the first method of `methods` that works. Its programs are
    /// `received` and `sent`, and `both` for a socket; the global `LINK` takes the length of the link header.
    ///
    /// # Errors
    /// `Absent` with the remedy if this host, kernel or the agent's privileges do not permit it.
    pub fn attach(
        roots: &Roots,
        interface: &Interface,
        object: &[u8],
        globals: &[(&'static str, u32)],
        sizes: &[(&'static str, u32)],
        methods: &[AttachMethod],
    ) -> Result<Self, SampleError> {
        let mut first = None;
        for method in methods {
            // Loaded again for each method: partial attachments are dropped with the object.
            let globals = globals.iter().copied().chain([("LINK", interface.link)]).collect();
            let mut loaded = load(roots, object, &globals, sizes)?;
            let attached = match method {
                AttachMethod::TcxLinks => attach_links(&mut loaded, interface).map(|()| None),
                AttachMethod::PacketSocket => attach_socket(&mut loaded, interface).map(Some),
            };
            match attached {
                Ok(socket) => {
                    return Ok(Self { cost: Cost::new(&mut loaded)?, loaded, method: *method, _socket: socket });
                }
                Err(error) => _ = first.get_or_insert(error),
            }
        }
        Err(first.unwrap_or_else(|| SampleError::Failed("no attach method was given".into())))
    }

    /// Attach method in use.
    pub fn method(&self) -> AttachMethod {
        self.method
    }

    /// Map with one record per CPU and index.
    ///
    /// # Errors
    /// `Failed` if the object has no such map, because object and agent do not match.
    pub fn per_cpu<T: Pod>(&mut self, name: &str) -> Result<PerCpuArray<MapData, T>, SampleError> {
        map(&mut self.loaded, name)
    }
}

fn attach_links(loaded: &mut Ebpf, interface: &Interface) -> Result<(), SampleError> {
    for (name, end) in [("received", TcAttachType::Ingress), ("sent", TcAttachType::Egress)] {
        let program: &mut SchedClassifier = program(loaded, name)?;
        program.load().map_err(|e| absent("the kernel rejects the probe", &e))?;
        // First in the chain: other programs may redirect or drop packets.
        let options = TcAttachOptions::TcxOrder(LinkOrder::first());
        let attached = program.attach_with_options(&interface.name, end, options);
        attached.map_err(|e| absent(&format!("attaching the probe to {}", interface.name), &e))?;
    }
    Ok(())
}

fn attach_socket(loaded: &mut Ebpf, interface: &Interface) -> Result<PacketSocket, SampleError> {
    let doing = format!("a packet socket on {}", interface.name);
    let socket = PacketSocket::new().map_err(|e| absent(&doing, &e))?;
    let program: &mut SocketFilter = program(loaded, "both")?;
    program.load().map_err(|e| absent("the kernel rejects the probe", &e))?;
    program.attach(&socket).map_err(|e| absent(&doing, &e))?;
    socket.listen(interface.index).map_err(|e| absent(&doing, &e))?;
    Ok(socket)
}
