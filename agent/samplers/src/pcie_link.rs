//! Speed and width of PCIe links, as the kernel reads them from the two ends.

use fabriclens_agent_host::sysfile::maybe;
use std::path::Path;

/// Speed and width of one end of a link; `None` if the kernel says "Unknown", 0 or 255 (virtual functions, guests).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct End {
    /// Transfers per second and lane.
    pub transfers: f64,
    /// Lanes.
    pub lanes: u64,
}

impl End {
    /// The end at `dir`; `which` is `current` or `max`.
    pub fn read(dir: &Path, which: &str) -> Option<Self> {
        let speed = maybe(&dir.join(format!("{which}_link_speed")))?;
        let lanes = maybe(&dir.join(format!("{which}_link_width")))?.parse().ok()?;
        let (number, unit) = speed.split_once(' ')?;
        let giga: f64 = number.parse().ok()?;
        let sound = unit.starts_with("GT/s") && giga > 0.0 && (1..=64).contains(&lanes);
        sound.then_some(Self { transfers: giga * 1e9, lanes })
    }

    /// Bytes per second after line coding: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, 242 of 256 bytes above.
    pub fn bytes(self) -> f64 {
        let coding = match self.transfers {
            t if t <= 5e9 => 0.8,
            t if t <= 32e9 => 128.0 / 130.0,
            _ => 242.0 / 256.0,
        };
        self.transfers * self.lanes as f64 * coding / 8.0
    }
}

/// Bandwidth of the narrowest of several links, bytes per second.
pub(crate) fn narrowest(ends: impl Iterator<Item = End>) -> Option<f64> {
    ends.map(End::bytes).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_ends_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        for (speed, width, sound) in [
            ("32.0 GT/s PCIe", "16", true),
            ("Unknown", "16", false),
            ("16.0 GT/s PCIe", "255", false),
            ("8.0 GT/s PCIe", "0", false),
        ] {
            write("current_link_speed", speed);
            write("current_link_width", width);
            assert_eq!(End::read(dir.path(), "current").is_some(), sound, "{speed} x{width}");
        }
        assert!((End { transfers: 32e9, lanes: 16 }.bytes() - 63.0e9).abs() < 0.1e9);
    }
}
