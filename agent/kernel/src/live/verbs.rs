//! Port attributes and asynchronous events by libibverbs. Called by [`super::LiveKernel`] and [`super::events`].
//!
//! A small binding in this crate loads the library at run time. With the crate `ibverbs`, which links it, the agent
//! would not start on a host without rdma-core; `rdma-mummy-sys` and `sideway` load it at run time, but need CMake and
//! libclang to build. The part of the ABI in use has been stable since rdma-core 1.

mod dma_buf;
mod event_kinds;
mod ffi;
mod ud;

pub use dma_buf::supported as dma_buf;
pub use ud::UdPort;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use super::error::{call_error, malformed};
use super::sys::set_nonblocking;
use crate::{CallError, Event, VerbsPort, table};
use event_kinds::{DEVICE_FATAL, KINDS};

/// Lanes by `active_width`.
const WIDTHS: &[(u8, u32)] = &[(1, 1), (2, 4), (4, 8), (8, 12), (16, 2)];
const ETHERNET: u8 = 2;

/// Attributes of a port. Opens the device for this call only, because an open device can prevent unloading its driver.
pub fn port(device: &str, port: u32) -> Result<VerbsPort, CallError> {
    let what = format!("port attributes of {device} port {port} by verbs");
    let mut seen = false;
    let contexts = ffi::open(|name, _| {
        let wanted = name == device && !seen;
        seen |= wanted;
        wanted
    });
    let contexts = contexts.map_err(|why| CallError::Unsupported { what: what.clone(), why: install_hint(&why) })?;
    let Some(context) = contexts.first() else {
        let why = if seen {
            "cannot open its /dev/infiniband/uverbs*: the device file is missing or access is denied"
        } else {
            "libibverbs has no provider for the device, or the device is gone"
        };
        return Err(CallError::Unsupported { what, why: why.into() });
    };
    let number = u8::try_from(port).map_err(|_| malformed(&what, "the port number is larger than 255"))?;
    context.query_port(number).map(|attr| decode(&attr)).map_err(|e| call_error(what, e))
}

fn install_hint(why: &str) -> String {
    format!("install rdma-core: {why}")
}

fn decode(attr: &ffi::PortAttr) -> VerbsPort {
    // If `active_speed_ex` is 0, `active_speed` has the value.
    let code = if attr.active_speed_ex == 0 { u32::from(attr.active_speed) } else { attr.active_speed_ex };
    let speed = table::SPEED.iter().find(|row| row.0 == code);
    let width = WIDTHS.iter().find(|row| row.0 == attr.active_width).map(|row| row.1);
    let lid = |lid: u16| (attr.link_layer != ETHERNET).then_some(u32::from(lid));
    let mtu = |code: u32| (1..=5).contains(&code).then(|| 128 << code);
    VerbsPort {
        rate_bits: speed.zip(width).map(|(speed, lanes)| speed.2 * u64::from(lanes)),
        width,
        speed: speed.map(|row| row.1),
        mtu: mtu(attr.active_mtu),
        mtu_max: mtu(attr.max_mtu),
        lid: lid(attr.lid),
        sm_lid: lid(attr.sm_lid),
    }
}

/// Open devices, monitored for events.
///
/// A driver without support for surprise removal blocks a removal until each of its open devices is closed. The owner
/// must therefore call [`Monitor::close`] as soon as the kernel announces the removal of the character device.
#[derive(Debug, Default)]
pub struct Monitor(Vec<ffi::Context>);

/// Modules that use `ib_uverbs`, whose devices can be open.
const HOLDERS: &str = "/sys/module/ib_uverbs/holders";
/// Software drivers, whose devices can be removed by `rdma link delete` while they are open.
const SOFTWARE: &[&str] = &["rdma_rxe", "siw"];

impl Monitor {
    /// Reason why verbs cannot be used on this host; `None` if they can.
    pub fn unavailable() -> Option<String> {
        ffi::unavailable()
    }

    /// Opens devices that are not open yet.
    ///
    /// Closes a device again if opening it prevents unloading its driver: monitoring must not restrict the
    /// administrator. State changes of its ports are then seen by rtnetlink and at every sample.
    pub fn open_new(&mut self) {
        let mut new = Vec::new();
        let listed = ffi::open(|_, uverbs| {
            new.push(uverbs.to_owned());
            false
        });
        if listed.is_err() {
            return;
        }
        new.retain(|uverbs| !self.0.iter().any(|c| c.uverbs == *uverbs));
        for uverbs in new {
            let before = references(Path::new(HOLDERS));
            let opened = ffi::open(|_, name| name == uverbs).unwrap_or_default();
            let held = references(Path::new(HOLDERS)) > before;
            // Nor is a device kept open if reading its events would block the thread.
            let keep = |context: &ffi::Context| !held && set_nonblocking(context.events()).is_ok();
            self.0.extend(opened.into_iter().filter(keep));
        }
    }

    /// Closes the device behind `/dev/infiniband/<uverbs>`.
    pub fn close(&mut self, uverbs: &str) {
        self.0.retain(|context| context.uverbs != uverbs);
    }

    /// Descriptors to poll, in the order that [`Monitor::read_events`] expects.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(ffi::Context::events)
    }

    /// Appends the events of the devices that are `ready` to `out`. Closes a device that fails or reports a fatal
    /// error.
    pub fn read_events(&mut self, ready: &[bool], out: &mut impl Extend<Event>) {
        let mut ready = ready.iter();
        self.0.retain(|context| !ready.next().copied().unwrap_or(false) || read_device(context, out));
    }
}

/// Sum of the reference counts of the modules in `holders`, without software drivers. If it rises for another reason
/// than opening a device, only the events of that device are lost.
fn references(holders: &Path) -> u64 {
    let modules = std::fs::read_dir(holders).into_iter().flatten().flatten();
    let hardware = modules.filter(|module| !SOFTWARE.iter().any(|name| module.file_name() == **name));
    let counts = hardware.filter_map(|module| std::fs::read_to_string(module.path().join("refcnt")).ok());
    counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
}

/// Appends the events of one device to `out`. False if the device must be closed.
fn read_device(context: &ffi::Context, out: &mut impl Extend<Event>) -> bool {
    loop {
        match context.next_event() {
            Ok(raw) => {
                let (kind, of_port) =
                    usize::try_from(raw.kind).ok().and_then(|k| KINDS.get(k)).copied().unwrap_or(("other", false));
                let port = of_port.then_some(raw.port);
                out.extend([Event::Async { device: context.device.clone(), port, kind }]);
                if kind == DEVICE_FATAL {
                    return false;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return true;
            }
            // EIO: the device is gone, or its driver went through recovery.
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_up_to_xdr() {
        let ndr = ffi::PortAttr {
            active_speed: 128,
            active_width: 2,
            active_mtu: 5,
            lid: 7,
            sm_lid: 1,
            link_layer: 1,
            ..Default::default()
        };
        let port = decode(&ndr);
        assert_eq!((port.rate_bits, port.width, port.speed), (Some(400_000_000_000), Some(4), Some("NDR")));
        assert_eq!((port.mtu, port.lid, port.sm_lid), (Some(4096), Some(7), Some(1)));
        let xdr = decode(&ffi::PortAttr { active_speed_ex: 256, ..ndr });
        assert_eq!((xdr.rate_bits, xdr.speed), (Some(800_000_000_000), Some("XDR")));
        let roce = decode(&ffi::PortAttr { link_layer: ETHERNET, active_mtu: 0, active_speed: 3, ..ndr });
        assert_eq!((roce.rate_bits, roce.lid, roce.sm_lid, roce.mtu, roce.width), (None, None, None, None, Some(4)));
    }

    #[test]
    fn references_of_hardware_drivers() {
        let holders = tempfile::tempdir().unwrap();
        for (module, count) in [("mlx5_ib", "2\n"), ("efa", "1\n"), ("rdma_rxe", "9\n"), ("odd", "-\n")] {
            std::fs::create_dir(holders.path().join(module)).unwrap();
            std::fs::write(holders.path().join(module).join("refcnt"), count).unwrap();
        }
        assert_eq!(references(holders.path()), 3);
        assert_eq!(references(Path::new("/nonexistent")), 0);
    }

    #[test]
    fn event_numbers() {
        let number = |name| KINDS.iter().position(|row| row.0 == name);
        assert_eq!((number(DEVICE_FATAL), number("port_err"), number("gid_change")), (Some(8), Some(10), Some(18)));
        assert!(KINDS[9].1 && KINDS[13].1 && !KINDS[8].1);
    }
}
