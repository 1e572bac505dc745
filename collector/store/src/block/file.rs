//! The frame of a block file: header, pages, index, footer, trailer.

use super::index::Page;
use super::index_encode::Encoded;
use crate::codec::Corrupt;
use crate::codec::varint::{Cursor, put, put_signed};
use crate::io::Output;
use std::io;

/// First and last bytes of a block.
pub const MAGIC: [u8; 8] = *b"FABLENSB";
/// Format version written, and the newest one read.
pub const VERSION: u32 = 2;
/// Bytes of the header: magic, version, checksum.
pub const HEADER: u64 = 16;
/// Bytes of the trailer: length and checksum of the footer, magic.
pub const TRAILER: u64 = 16;
/// A page is closed at the end of the first stream past this many bytes.
const PAGE: usize = 64 << 10;

/// Summary of a block, readable without its index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footer {
    /// First sample, Unix ms.
    pub min: i64,
    /// Last sample, Unix ms.
    pub max: i64,
    /// Number of samples.
    pub samples: u64,
    /// Number of series.
    pub series: u64,
    /// First and last log generation that it was made of. Of two samples at one time, the earlier generation's wins.
    pub generations: (u64, u64),
    /// Blocks that it was merged from; they are removed, or about to be.
    pub parents: Vec<u64>,
    /// Offset of the index in the file, without the series of its sections, which are before it.
    pub index_offset: u64,
    /// Bytes of that.
    pub index_len: u64,
    /// CRC-32 of that.
    pub index_crc: u32,
}

/// Encodes the header.
pub fn header() -> [u8; HEADER as usize] {
    let mut out = [0; HEADER as usize];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32fast::hash(&out[..12]);
    out[12..].copy_from_slice(&crc.to_le_bytes());
    out
}

fn encode_footer(f: &Footer) -> Vec<u8> {
    let mut out = Vec::new();
    put_signed(&mut out, f.min);
    put_signed(&mut out, f.max);
    for v in [f.samples, f.series, f.generations.0, f.generations.1, f.index_offset, f.index_len] {
        put(&mut out, v);
    }
    out.extend(f.index_crc.to_le_bytes());
    put(&mut out, f.parents.len() as u64);
    f.parents.iter().for_each(|p| put(&mut out, *p));
    out
}

/// Decodes a footer.
pub fn decode_footer(bytes: &[u8]) -> Result<Footer, Corrupt> {
    let c = &mut Cursor::new(bytes);
    let mut f = Footer {
        min: c.signed()?,
        max: c.signed()?,
        samples: c.varint()?,
        series: c.varint()?,
        generations: (c.varint()?, c.varint()?),
        index_offset: c.varint()?,
        index_len: c.varint()?,
        index_crc: u32::from_le_bytes(c.array()?),
        parents: Vec::new(),
    };
    for _ in 0..c.count(bytes.len())? {
        f.parents.push(c.varint()?);
    }
    Ok(f)
}

/// Writes a block front to back.
pub struct FileWriter {
    out: Box<dyn Output>,
    page: Vec<u8>,
    at: u64,
    pages: Vec<Page>,
}

impl FileWriter {
    /// Starts with the header.
    pub fn new(mut out: Box<dyn Output>) -> io::Result<Self> {
        out.append(&header())?;
        Ok(Self { out, page: Vec::with_capacity(2 * PAGE), at: HEADER, pages: Vec::new() })
    }

    /// Appends a stream and returns its offset.
    pub fn stream(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let offset = self.at + self.page.len() as u64;
        self.page.extend_from_slice(bytes);
        if self.page.len() >= PAGE {
            self.close_page()?;
        }
        Ok(offset)
    }

    fn close_page(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        self.out.append(&self.page)?;
        self.pages.push(Page { offset: self.at, len: self.page.len() as u32, crc: crc32fast::hash(&self.page) });
        self.at += self.page.len() as u64;
        self.page.clear();
        Ok(())
    }

    /// Ends the last page; returns all pages.
    pub fn end_pages(&mut self) -> io::Result<&[Page]> {
        self.close_page()?;
        Ok(&self.pages)
    }

    /// Writes index, footer and trailer; the file is durable afterwards.
    pub fn finish(mut self, index: &Encoded, mut footer: Footer) -> io::Result<Footer> {
        footer.index_offset = self.at + index.series.len() as u64;
        footer.index_len = index.directory.len() as u64;
        footer.index_crc = crc32fast::hash(&index.directory);
        let mut tail = encode_footer(&footer);
        let (len, crc) = (tail.len() as u32, crc32fast::hash(&tail));
        tail.extend(len.to_le_bytes());
        tail.extend(crc.to_le_bytes());
        tail.extend(MAGIC);
        self.out.append(&index.series)?;
        self.out.append(&index.directory)?;
        self.out.append(&tail)?;
        self.out.sync()?;
        Ok(footer)
    }
}
