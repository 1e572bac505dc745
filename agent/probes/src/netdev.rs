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
pub enum Way {
    /// tcx links in both directions.
    Links,
    /// Filter of a packet socket.
    PacketSocket,
}

/// Attach methods by preference.
pub const WAYS: &[Way] = &[Way::Links, Way::PacketSocket];

/// Link types by the kernel's number (`ARPHRD_`), with the bytes in front of IP; other types have none.
const LINKS: &[(&str, u32)] = &[("1", 14), ("772", 14), ("32", 4)];

/// Interface data that the probe needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Interface index; it changes if an interface is replaced by another one of the same name.
    pub index: u32,
    /// Bytes in front of IP.
    pub link: u32,
    /// Link speed, bytes per second, if known.
    pub line: Option<f64>,
}

impl Target {
    /// Reads an interface from sysfs; `None` if there is none of this name.
    pub fn find(roots: &Roots, name: &str) -> Option<Self> {
        let dir = roots.sys().join("class/net").join(name);
        let number = |file: &str| maybe(&dir.join(file)).and_then(|text| text.trim().parse::<i64>().ok());
        let kind = maybe(&dir.join("type")).unwrap_or_default();
        let link = LINKS.iter().find(|(link, _)| *link == kind.trim()).map_or(0, |(_, bytes)| *bytes);
        let index = u32::try_from(number("ifindex")?).ok()?;
        let line = number("speed").filter(|mbits| *mbits > 0).map(|mbits| mbits as f64 * 1e6 / 8.0);
        Some(Self { name: name.to_owned(), index, link, line })
    }
}

/// An attached probe. Dropping it removes it from the kernel.
pub struct NetdevProbe {
    loaded: Ebpf,
    /// Cost of its programs.
    pub cost: Cost,
    way: Way,
    _tap: Option<PacketSocket>,
}

impl NetdevProbe {
    /// Loads `object` for one interface and attaches it by the first method of `ways` that works. Its programs are
    /// `received` and `sent`, and `both` for a socket; the global `LINK` takes the bytes in front of IP.
    ///
    /// # Errors
    /// `Absent` with the remedy if this host, kernel or the agent's privileges do not permit it.
    pub fn attach(
        roots: &Roots,
        target: &Target,
        object: &[u8],
        globals: &[(&'static str, u32)],
        sizes: &[(&'static str, u32)],
        ways: &[Way],
    ) -> Result<Self, SampleError> {
        let mut first = None;
        for way in ways {
            // Loaded again for each method: partial attachments are dropped with the object.
            let globals = globals.iter().copied().chain([("LINK", target.link)]).collect();
            let mut loaded = load(roots, object, &globals, sizes)?;
            let attached = match way {
                Way::Links => links(&mut loaded, target).map(|()| None),
                Way::PacketSocket => tap(&mut loaded, target).map(Some),
            };
            match attached {
                Ok(tap) => return Ok(Self { cost: Cost::new(&mut loaded)?, loaded, way: *way, _tap: tap }),
                Err(error) => _ = first.get_or_insert(error),
            }
        }
        Err(first.unwrap_or_else(|| SampleError::Failed("no way to attach the probe was given".into())))
    }

    /// Attach method in use.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Map with one record per CPU and place.
    ///
    /// # Errors
    /// `Failed` if the object has no such map, because object and agent do not match.
    pub fn per_cpu<T: Pod>(&mut self, name: &str) -> Result<PerCpuArray<MapData, T>, SampleError> {
        map(&mut self.loaded, name)
    }
}

fn links(loaded: &mut Ebpf, target: &Target) -> Result<(), SampleError> {
    for (name, end) in [("received", TcAttachType::Ingress), ("sent", TcAttachType::Egress)] {
        let program: &mut SchedClassifier = program(loaded, name)?;
        program.load().map_err(|e| absent("the kernel refuses the probe", &e))?;
        // First in the chain: other programs may redirect or drop packets.
        let options = TcAttachOptions::TcxOrder(LinkOrder::first());
        let attached = program.attach_with_options(&target.name, end, options);
        attached.map_err(|e| absent(&format!("attaching the probe to {}", target.name), &e))?;
    }
    Ok(())
}

fn tap(loaded: &mut Ebpf, target: &Target) -> Result<PacketSocket, SampleError> {
    let doing = format!("a packet socket on {}", target.name);
    let tap = PacketSocket::new().map_err(|e| absent(&doing, &e))?;
    let program: &mut SocketFilter = program(loaded, "both")?;
    program.load().map_err(|e| absent("the kernel refuses the probe", &e))?;
    program.attach(&tap).map_err(|e| absent(&doing, &e))?;
    tap.listen(target.index).map_err(|e| absent(&doing, &e))?;
    Ok(tap)
}
