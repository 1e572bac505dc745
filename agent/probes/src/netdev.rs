//! Programs on the packet path of one interface, both directions. For `samplers/microburst`.
//!
//! From Linux 6.6 on they are links (tcx), which stand beside what others have attached and go with their file
//! descriptors. Older kernels have filters of `tc` alone there, which would outlive a killed agent; so on those the
//! program is the filter of a packet socket that takes nothing in.

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

/// How a program comes to see packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Links at both ends of the packet path.
    Links,
    /// The filter of a packet socket.
    PacketSocket,
}

/// The better one first.
pub const WAYS: &[Way] = &[Way::Links, Way::PacketSocket];

/// Kinds of links by the kernel's number (`ARPHRD_`), and the bytes in front of IP; others have none.
const LINKS: &[(&str, u32)] = &[("1", 14), ("772", 14), ("32", 4)];

/// An interface as the probe must know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its index: another one of the same name is another interface.
    pub index: u32,
    /// Bytes in front of IP.
    pub link: u32,
    /// Bytes per second that it can carry, where it tells.
    pub line: Option<f64>,
}

impl Target {
    /// What sysfs tells of the interface; `None` when there is none of that name.
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

/// A probe at work. Dropped, it is gone from the kernel.
pub struct NetdevProbe {
    loaded: Ebpf,
    /// Of its programs.
    pub cost: Cost,
    way: Way,
    _tap: Option<PacketSocket>,
}

impl NetdevProbe {
    /// Loads `object` for one interface and attaches it in the first of the `ways` that works. Its programs are
    /// `received` and `sent`, and `both` for a socket; `LINK` takes the bytes in front of IP.
    ///
    /// # Errors
    /// `Absent` with the remedy where this host, this kernel or this agent's privileges cannot have it.
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
            // Anew for each way: what was attached half is gone with the object.
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

    /// How it is attached.
    pub fn way(&self) -> Way {
        self.way
    }

    /// A map with one record for each CPU and place.
    ///
    /// # Errors
    /// `Failed` when the object has no such map: the object and the agent do not belong together.
    pub fn per_cpu<T: Pod>(&mut self, name: &str) -> Result<PerCpuArray<MapData, T>, SampleError> {
        map(&mut self.loaded, name)
    }
}

fn links(loaded: &mut Ebpf, target: &Target) -> Result<(), SampleError> {
    for (name, end) in [("received", TcAttachType::Ingress), ("sent", TcAttachType::Egress)] {
        let program: &mut SchedClassifier = program(loaded, name)?;
        program.load().map_err(|e| absent("the kernel refuses the probe", &e))?;
        // Before all others, who may redirect or drop.
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
