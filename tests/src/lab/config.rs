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
    /// Memory, MiB.
    pub memory: u32,
}

impl Config {
    /// A guest without a fabric card.
    #[must_use]
    pub fn new(name: &str, number: u8, modules: &'static str) -> Self {
        Self { name: name.to_owned(), number, modules, cables: Vec::new(), cards: 0, memory: 256 }
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

    /// QEMU's arguments for the cards.
    pub(super) fn devices(&self) -> Vec<String> {
        let mut arguments = Vec::new();
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
        for card in 0..self.cards {
            let (slot, chassis) = (card + 1, card + 1);
            let port = format!("pcie-root-port,id=slot{card},hotplug=off,chassis={chassis},slot={slot}");
            let nic = format!("e1000e,id=hca{card},bus=slot{card},romfile=");
            arguments.extend(["-device".to_owned(), port, "-device".to_owned(), nic]);
        }
        arguments
    }
}
