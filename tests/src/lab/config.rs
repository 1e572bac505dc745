//! Hardware and modules of a guest, and QEMU's arguments for them.

use std::path::{Path, PathBuf};

/// What the far end of a fabric card is.
#[derive(Clone, Debug)]
pub enum Cable {
    /// A port of a [`super::switch::Switch`], by its unix socket.
    Switch(PathBuf),
    /// A card of another guest: both sockets are of datagrams, and either guest may start first. Costs no process between them.
    Guest {
        /// Socket of this end.
        own: PathBuf,
        /// Socket of the other end.
        other: PathBuf,
    },
}

/// What the PCIe cards of a guest are plugged into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slots {
    /// Each is below a root port of its own.
    #[default]
    Root,
    /// The first card and a GPU are below two ports of one PCIe switch; the other cards are below root ports.
    Switch {
        /// Whether there is an IOMMU, and the kernel uses it.
        iommu: bool,
    },
}

/// Hardware and modules of a guest.
#[derive(Clone, Debug)]
pub struct Config {
    /// Host name in the guest.
    pub name: String,
    /// Last byte of its fabric addresses 10.(77 + card).0.N and of its MAC addresses.
    pub number: u8,
    /// Module list to load (`image::modules::LISTS`).
    pub modules: &'static str,
    /// Fabric cards `fab0`, `fab1` and so on.
    pub cables: Vec<Cable>,
    /// PCIe cards (82574L, never driven by their own driver) for a test module to claim.
    pub cards: u8,
    /// What these are plugged into.
    pub slots: Slots,
    /// Memory, MiB. What a guest does not use costs this host nothing.
    pub memory: u32,
}

impl Config {
    /// A guest without a fabric card.
    #[must_use]
    pub fn new(name: &str, number: u8, modules: &'static str) -> Self {
        Self { name: name.to_owned(), number, modules, cables: Vec::new(), cards: 0, slots: Slots::Root, memory: 512 }
    }

    /// With a fabric card on a switch port.
    #[must_use]
    pub fn on(self, port: &Path) -> Self {
        self.cable(Cable::Switch(port.to_owned()))
    }

    /// With a fabric card more.
    #[must_use]
    pub fn cable(mut self, cable: Cable) -> Self {
        self.cables.push(cable);
        self
    }

    /// With PCIe cards for a test module.
    #[must_use]
    pub fn cards(mut self, cards: u8) -> Self {
        self.cards = cards;
        self
    }

    /// With its PCIe cards plugged in like this.
    #[must_use]
    pub fn slots(mut self, slots: Slots) -> Self {
        self.slots = slots;
        self
    }

    /// The kernel's arguments for the cards.
    pub(super) fn kernel_arguments(&self) -> &'static str {
        if self.slots == (Slots::Switch { iommu: true }) { "intel_iommu=on" } else { "" }
    }

    /// QEMU's arguments for the cards.
    pub(super) fn devices(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut device = |device: String| arguments.extend(["-device".to_owned(), device]);
        // It must come before the devices that it serves.
        if self.slots == (Slots::Switch { iommu: true }) {
            device("intel-iommu".to_owned());
        }
        for card in 0..self.cards {
            let number = card + 1;
            device(format!("pcie-root-port,id=slot{card},hotplug=off,chassis={number},slot={number}"));
            let mut bus = format!("slot{card}");
            if card == 0 && self.slots != Slots::Root {
                device(format!("x3130-upstream,id=switch,bus={bus}"));
                for (port, chassis) in [("beside", 101), ("behind", 102)] {
                    device(format!(
                        "xio3130-downstream,id={port},bus=switch,hotplug=off,chassis={chassis},slot={chassis}"
                    ));
                }
                device("ati-vga,bus=beside,romfile=".to_owned());
                bus = "behind".to_owned();
            }
            device(format!("e1000e,id=hca{card},bus={bus},romfile="));
        }
        for (card, cable) in self.cables.iter().enumerate() {
            let far_end = match cable {
                Cable::Switch(port) => {
                    format!("stream,id=fab{card},server=off,addr.type=unix,addr.path={}", port.display())
                }
                Cable::Guest { own, other } => format!(
                    "dgram,id=fab{card},local.type=unix,local.path={},remote.type=unix,remote.path={}",
                    own.display(),
                    other.display()
                ),
            };
            let device = format!(
                "virtio-net-pci,netdev=fab{card},id=card{card},mac=52:54:00:77:{card:02x}:{:02x},romfile=,speed=25000,\
                 duplex=full",
                self.number
            );
            arguments.extend(["-netdev".to_owned(), far_end, "-device".to_owned(), device]);
        }
        arguments
    }
}
