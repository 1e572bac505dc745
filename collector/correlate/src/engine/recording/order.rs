//! Puts rows into order of time. Rows that are nearly in order pass through a buffer of a few periods, so that memory does
//! not depend on the length of the recording. Rows that are sorted by port wait in a temporary file.

use super::error::RecordingError;
use super::period::Period;
use super::row_codec::RowCodec;
use super::rows::Row;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::{Read, Seek, SeekFrom, Write};

/// Rows that decide on period and order.
const HEAD: usize = 1 << 16;
/// Periods that a row may stand too late in the file.
const LATE: i64 = 4;
/// Bytes of one port that are written at a time.
const BLOCK: usize = 1 << 13;
/// Bytes that are kept in memory before a file is used.
const IN_MEMORY: usize = 1 << 26;

/// Rows, or why there are no more.
pub(super) type RowStream = Box<dyn Iterator<Item = Result<Row, RecordingError>>>;

/// Rows in order of time, and the sampling period in ms.
///
/// # Errors
/// [`RecordingError`] of the rows, or if the temporary file cannot be used.
pub(super) fn by_time(mut rows: RowStream) -> Result<(RowStream, i64), RecordingError> {
    let head = rows.by_ref().take(HEAD).collect::<Result<Vec<Row>, _>>()?;
    let mut period = Period::default();
    head.iter().for_each(|row| period.add(row));
    let step_ms = period.estimate_ms();
    let (mut newest, mut late) = (i64::MIN, 0);
    for row in &head {
        newest = newest.max(row.time_ms);
        late = late.max(newest - row.time_ms);
    }
    let rows = head.into_iter().map(Ok).chain(rows);
    if late <= LATE * step_ms {
        let nearly = Nearly { rows, late_ms: LATE * step_ms, queue: Queue::new(), newest: i64::MIN, seen: 0 };
        return Ok((Box::new(nearly), step_ms));
    }
    let mut waiting = Waiting::default();
    let mut period = Period::default();
    for row in rows {
        let row = row?;
        period.add(&row);
        waiting.push(&row)?;
    }
    Ok((Box::new(waiting.sorted()?), period.estimate_ms()))
}

/// Rows by time; of equal times the one with the lower number first.
type Queue = BTreeMap<(i64, u64), Row>;

/// Rows that are nearly in order.
struct Nearly<I> {
    rows: I,
    late_ms: i64,
    queue: Queue,
    newest: i64,
    seen: u64,
}

impl<I: Iterator<Item = Result<Row, RecordingError>>> Iterator for Nearly<I> {
    type Item = Result<Row, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let settled = self.newest.saturating_sub(self.late_ms);
            if let Some(first) = self.queue.first_entry().filter(|first| first.key().0 < settled) {
                return Some(Ok(first.remove()));
            }
            match self.rows.next() {
                Some(Ok(row)) => {
                    self.newest = self.newest.max(row.time_ms);
                    self.seen += 1;
                    self.queue.insert((row.time_ms, self.seen), row);
                }
                Some(Err(error)) => return Some(Err(error)),
                None => return self.queue.pop_first().map(|(_, row)| Ok(row)),
            }
        }
    }
}

/// Rows of one port that wait.
#[derive(Default)]
struct PortRows {
    codec: RowCodec,
    bytes: Vec<u8>,
    /// Begin and length of its blocks in the file.
    blocks: Vec<(u64, usize)>,
    last_ms: Option<i64>,
}

/// Rows that wait in a temporary file, port by port.
struct Waiting {
    file: tempfile::SpooledTempFile,
    end: u64,
    ports: HashMap<u32, PortRows>,
    columns: usize,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { file: tempfile::SpooledTempFile::new(IN_MEMORY), end: 0, ports: HashMap::new(), columns: 0 }
    }
}

impl Waiting {
    fn push(&mut self, row: &Row) -> Result<(), RecordingError> {
        self.columns = row.values.len();
        let port = self.ports.entry(row.port).or_default();
        if port.last_ms.is_some_and(|last| row.time_ms < last) {
            return Err(RecordingError::Order { time_ms: row.time_ms });
        }
        port.last_ms = Some(row.time_ms);
        port.codec.write(row, &mut port.bytes);
        if port.bytes.len() >= BLOCK {
            self.file.write_all(&port.bytes).map_err(RecordingError::Wait)?;
            port.blocks.push((self.end, port.bytes.len()));
            self.end += port.bytes.len() as u64;
            port.bytes.clear();
        }
        Ok(())
    }

    /// All rows in order of time.
    fn sorted(self) -> Result<Merge, RecordingError> {
        let mut ports: Vec<(u32, PortRows)> = self.ports.into_iter().collect();
        ports.sort_unstable_by_key(|(port, _)| *port);
        let reading = |(port, rows): (u32, PortRows)| PortReader {
            port,
            codec: RowCodec::default(),
            blocks: rows.blocks.into_iter(),
            last: Some(rows.bytes),
            bytes: Vec::new(),
            at: 0,
            next: None,
        };
        let ports = ports.into_iter().map(reading).collect();
        let mut merge = Merge { file: self.file, columns: self.columns, ports, queue: BinaryHeap::new() };
        for at in 0..merge.ports.len() {
            merge.queue(at)?;
        }
        Ok(merge)
    }
}

/// Reads the rows of one port again.
struct PortReader {
    port: u32,
    codec: RowCodec,
    blocks: std::vec::IntoIter<(u64, usize)>,
    /// Rows that were not written.
    last: Option<Vec<u8>>,
    bytes: Vec<u8>,
    at: usize,
    next: Option<Row>,
}

/// Merges the rows of all ports.
struct Merge {
    file: tempfile::SpooledTempFile,
    columns: usize,
    ports: Vec<PortReader>,
    /// Times and ports of the rows that come next.
    queue: BinaryHeap<Reverse<(i64, usize)>>,
}

impl Merge {
    /// Queues the next row of a port.
    fn queue(&mut self, at: usize) -> Result<(), RecordingError> {
        let port = &mut self.ports[at];
        if port.at >= port.bytes.len() {
            if let Some((begin, length)) = port.blocks.next() {
                self.file.seek(SeekFrom::Start(begin)).map_err(RecordingError::Wait)?;
                port.bytes.resize(length, 0);
                self.file.read_exact(&mut port.bytes).map_err(RecordingError::Wait)?;
            } else if let Some(bytes) = port.last.take() {
                port.bytes = bytes;
            } else {
                return Ok(());
            }
            port.at = 0;
        }
        let mut left = &port.bytes[port.at..];
        if let Some(row) = port.codec.read(port.port, self.columns, &mut left) {
            port.at = port.bytes.len() - left.len();
            self.queue.push(Reverse((row.time_ms, at)));
            port.next = Some(row);
        }
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = Result<Row, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, at)) = self.queue.pop()?;
        let row = self.ports[at].next.take()?;
        match self.queue(at) {
            Ok(()) => Some(Ok(row)),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(port: u32, time_ms: i64) -> Row {
        Row { port, time_ms, values: vec![f64::from(port), time_ms as f64] }
    }

    fn sorted(rows: &[Row]) -> Result<Vec<Row>, RecordingError> {
        let rows: Vec<_> = rows.iter().cloned().map(Ok).collect();
        by_time(Box::new(rows.into_iter())).and_then(|(rows, _)| rows.collect())
    }

    #[test]
    fn rows_by_port_are_merged() {
        let rows: Vec<Row> = (0..40).flat_map(|port| (0..900).map(move |s| row(port, s * 1000 + 7))).collect();
        let mut expected = rows.clone();
        expected.sort_by_key(|row| (row.time_ms, row.port));
        assert!(sorted(&rows).unwrap() == expected, "sorted by port");
        let mut late = expected.clone();
        late.swap(100, 130);
        assert!(sorted(&late).unwrap().is_sorted_by_key(|row| row.time_ms), "nearly in order");
    }

    #[test]
    fn a_port_that_goes_back_in_time_is_an_error() {
        let mut rows: Vec<Row> = (0..2).flat_map(|port| (0..50).map(move |s| row(port, s * 1000))).collect();
        rows.swap(60, 80);
        assert!(matches!(sorted(&rows), Err(RecordingError::Order { .. })));
    }
}
