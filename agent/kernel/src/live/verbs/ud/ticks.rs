//! Time stamps of completions as nanoseconds that do not wrap.

/// Converts the ticks of a NIC's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Bits of a time stamp that count.
    mask: u64,
    /// Frequency, kHz.
    khz: u64,
    /// The last time stamp, and the ticks since the first one: it starts in the middle, so that nothing is negative.
    last: Option<(u64, i128)>,
}

/// Ticks of the first time stamp: a day at 1 GHz.
const START: i128 = 86_400_000_000_000;

impl Ticks {
    /// A clock with this mask and frequency; `None` if the device tells neither or an impossible one.
    pub fn new(mask: u64, khz: u64) -> Option<Self> {
        (mask >= 0xffff_ffff && (1_000..=100_000_000).contains(&khz)).then_some(Self { mask, khz, last: None })
    }

    /// Nanoseconds of a time stamp. Completions may come out of order, so a time may lie before the last one; a distance of
    /// more than half of the clock's range is a wrap.
    pub fn nanoseconds(&mut self, stamp: u64) -> u64 {
        let stamp = stamp & self.mask;
        let ticks = match self.last {
            None => START,
            Some((last, ticks)) => {
                let ahead = stamp.wrapping_sub(last) & self.mask;
                if ahead <= self.mask / 2 {
                    ticks + i128::from(ahead)
                } else {
                    ticks - i128::from(last.wrapping_sub(stamp) & self.mask)
                }
            }
        };
        self.last = Some((stamp, ticks));
        u64::try_from(ticks.max(0) * 1_000_000 / i128::from(self.khz)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_nic_become_nanoseconds_over_its_wrap() {
        // ConnectX: 156.25 MHz in 48 bits; 1 GHz real-time clocks in 63.
        let mut clock = Ticks::new((1 << 48) - 1, 156_250).unwrap();
        let start = clock.nanoseconds((1 << 48) - 1_000);
        let after = clock.nanoseconds(562);
        assert_eq!(after - start, 9_996, "1562 ticks of 6.4 ns over the wrap");
        let before = clock.nanoseconds((1 << 48) - 1_000);
        assert_eq!(before, start, "out of order, back over the wrap");
    }

    #[test]
    fn clocks_that_tell_nothing_are_not_used() {
        for (mask, khz) in [(0, 156_250), (0xffff, 156_250), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            assert_eq!(Ticks::new(mask, khz), None, "{mask:#x} {khz}");
        }
        let mut clock = Ticks::new(u64::MAX, 1_000_000).unwrap();
        let start = clock.nanoseconds(5);
        assert_eq!(clock.nanoseconds(1_005) - start, 1_000);
    }
}
