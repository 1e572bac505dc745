//! Schemas: which values a bucket counts.

/// Lowest and highest exponential schema.
pub const EXPONENTIAL_SCHEMAS: std::ops::RangeInclusive<i8> = -4..=8;
/// Schema of histograms with custom bounds.
pub const CUSTOM_SCHEMA: i8 = -53;
/// Maximum buckets of each side of a histogram, and maximum custom bounds.
pub const MAX_BUCKETS: usize = 1 << 16;
