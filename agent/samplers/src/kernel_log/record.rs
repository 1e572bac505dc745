//! One record of `/dev/kmsg`: `priority,sequence,microseconds,flags;message`, then lines ` KEY=value` about the device.

/// Bits of the priority that hold the level; the facility is above them.
const LEVEL_BITS: u32 = 3;
/// Keys after the message are read up to this number of lines.
const KEYS: usize = 8;

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of the record, counted since boot; a gap means that records were overwritten.
    pub sequence: u64,
    /// Time since the start of the kernel, microseconds.
    pub micros: u64,
    /// The kernel wrote it. Programs can write to the log too, but not under the kernel's facility.
    pub is_of_kernel: bool,
    /// Message; unprintable bytes are escaped by the kernel.
    pub message: &'a str,
    /// PCI address of the device that it is about, if the driver said so.
    pub pci: Option<&'a str>,
}

impl<'a> Record<'a> {
    /// Parses a record; `None` if it is malformed.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            // The kernel escapes other bytes; a record that was cut in a character keeps its beginning.
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?,
        };
        let (head, body) = text.split_once(';')?;
        let mut fields = head.split(',');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (priority, sequence, micros) = (number()?, number()?, number()?);
        let mut lines = body.split('\n');
        let message = lines.next().unwrap_or_default();
        let pci = lines.take(KEYS).find_map(|line| line.strip_prefix(" DEVICE=+pci:"));
        Some(Self { sequence, micros, is_of_kernel: priority >> LEVEL_BITS == 0, message, pci })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_parsed_with_its_device() {
        let text = "3,814,8883192,-;mlx5_core 0000:3b:00.0: Fatal error 3 detected\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n";
        let record = Record::parse(text.as_bytes()).unwrap();
        assert_eq!((record.sequence, record.micros, record.is_of_kernel), (814, 8_883_192, true));
        assert_eq!(record.message, "mlx5_core 0000:3b:00.0: Fatal error 3 detected");
        assert_eq!(record.pci, Some("0000:3b:00.0"));
        let later = Record::parse(b"6,9,1,-,caller=T12,new=field;ok").unwrap();
        assert_eq!((later.message, later.pci), ("ok", None));
    }

    #[test]
    fn facility_tells_the_kernel_from_programs() {
        let of = |priority: u32| Record::parse(format!("{priority},1,1,-;x").as_bytes()).unwrap().is_of_kernel;
        assert!((0..8).all(of), "facility 0 is the kernel's, at each level");
        assert!(![8, 12, 14, 30, 131].into_iter().any(of), "user, daemon and others");
    }

    #[test]
    fn malformed_records_are_none() {
        for bad in ["", "x", "6,1,1", "6,1;x", "a,1,1,-;x", "6,-1,1,-;x", "99999999999999999999999,1,1,-;x"] {
            assert_eq!(Record::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Record::parse(b"6,1,1,-;text\xc3").unwrap().message, "text");
        assert_eq!(Record::parse(b"\xff6,1,1,-;x"), None);
    }
}
