//! Form of a file of counters: `deploy/mpi/layout.h`. Numbers have the byte order of the host.

use crate::inspector::CLASSES;
use crate::ras::is_operation;
use std::sync::Arc;

/// First eight bytes: `FLNSIPI1` as a number.
const MAGIC: u64 = 0x3149_5049_534e_4c46;
const VERSION: u32 = 1;
const HEADER: usize = 256;
const ROW: usize = 320;
/// Most operations of a file, and the longest file, bytes.
const ROWS: usize = 128;
pub(super) const LONGEST: usize = HEADER + ROWS * ROW;
const GROUP_AT: usize = 136;
const NAME: usize = 24;
const CELLS_AT: usize = 32;
const CELL: usize = 24;
const SIZES: usize = CLASSES.len();
/// Most ranks of a program.
const RANKS: u32 = 1 << 24;
const ALL_WAIT: u32 = 1;
const SEVERAL_THREADS: u32 = 1;

/// Why the bytes of a file are not counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The library has not filled it yet, or it is not the library's.
    #[error("it does not begin as a file of counters does")]
    Magic,
    /// Another version of the library wrote it.
    #[error(
        "it has version {0}, and this agent reads version {VERSION}; install the library and the agent of one release"
    )]
    Version(u32),
    /// Length, rows, ranks or names contradict each other.
    #[error("its length, rows or ranks contradict each other")]
    Form,
}

/// Which ranks took part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// All ranks of `MPI_COMM_WORLD`, in it or in a communicator of the same size.
    World,
    /// Smaller communicators, messages between two ranks, waits, one-sided operations.
    Other,
}

impl Group {
    /// Both, in the order of the file.
    pub const ALL: [Self; 2] = [Self::World, Self::Other];

    /// Value of the label `communicator`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::World => "MPI_COMM_WORLD",
            Self::Other => "other",
        }
    }
}

/// Sums of an operation, since the begin of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Calls that have returned.
    pub calls: u64,
    /// Sizes of their messages, bytes.
    pub bytes: u64,
    /// Time in them, nanoseconds.
    pub nanoseconds: u64,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Name without `MPI_`.
    pub name: Arc<str>,
    /// No rank leaves it before all others have entered.
    pub all_wait: bool,
    /// By group, and by class of message size in the order of [`CLASSES`].
    pub cells: [[Cell; SIZES]; 2],
}

/// The operation that a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// Name without `MPI_`.
    pub operation: Arc<str>,
    /// No rank leaves it before all others have entered.
    pub all_wait: bool,
    /// Which ranks take part; `None` if the library is too old to tell.
    pub group: Option<Group>,
}

/// Counters of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Process id in its own PID namespace.
    pub pid: u32,
    /// Start of the process, clock ticks since boot.
    pub start: u64,
    /// Rank in `MPI_COMM_WORLD`, and number of ranks there.
    pub rank: u32,
    /// Number of ranks of `MPI_COMM_WORLD`.
    pub size: u32,
    /// Equal in processes that were launched together.
    pub world: u64,
    /// Several threads have called MPI, so that their times overlap.
    pub several_threads: bool,
    /// `MPI_Finalize` was called.
    pub ended: bool,
    /// Begin of the operation that the process is in, nanoseconds of the monotonic clock.
    pub entered: Option<u64>,
    /// That operation.
    pub inside: Option<Inside>,
    /// Name and version of the MPI library; empty if it is no plain text.
    pub library: Arc<str>,
    /// Operations, in the order of the file.
    pub operations: Vec<Operation>,
}

/// Parses a whole file.
///
/// # Errors
/// Why the bytes are not counters.
pub fn parse(bytes: &[u8]) -> Result<Counters, Malformed> {
    let magic = long(bytes, 0).filter(|magic| *magic == MAGIC);
    magic.ok_or(Malformed::Magic)?;
    let version = word(bytes, 8).ok_or(Malformed::Form)?;
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    counters(bytes).ok_or(Malformed::Form)
}

fn counters(bytes: &[u8]) -> Option<Counters> {
    let rows = usize::try_from(word(bytes, 16)?).ok().filter(|rows| *rows <= ROWS)?;
    let length = HEADER + rows * ROW;
    let is_whole = bytes.len() == length && usize::try_from(word(bytes, 12)?).ok()? == length;
    let (rank, size) = (word(bytes, 24)?, word(bytes, 28)?);
    if !is_whole || size == 0 || size > RANKS || rank >= size {
        return None;
    }
    let operations = bytes[HEADER..].chunks_exact(ROW).map(operation).collect::<Option<Vec<_>>>()?;
    let row = long(bytes, 56)?.checked_sub(1).and_then(|row| usize::try_from(row).ok());
    let group = word(bytes, GROUP_AT)?.checked_sub(1).and_then(|at| Group::ALL.get(usize::try_from(at).ok()?).copied());
    let inside = row.and_then(|row| operations.get(row));
    let inside = inside.map(|row| Inside { operation: Arc::clone(&row.name), all_wait: row.all_wait, group });
    let library = text(&bytes[72..136]).filter(|text| text.chars().all(|c| c.is_ascii_graphic() || c == ' '));
    Some(Counters {
        pid: word(bytes, 20)?,
        start: long(bytes, 32)?,
        rank,
        size,
        world: long(bytes, 40)?,
        several_threads: word(bytes, 48)? & SEVERAL_THREADS != 0,
        ended: word(bytes, 52)? != 0,
        entered: Some(long(bytes, 64)?).filter(|_| long(bytes, 56).is_some_and(|inside| inside != 0)),
        inside,
        library: library.unwrap_or_default().into(),
        operations,
    })
}

fn operation(row: &[u8]) -> Option<Operation> {
    let name = text(&row[..NAME]).filter(|name| is_operation(name))?;
    let mut cells = [[Cell::default(); SIZES]; 2];
    for (number, cell) in cells.as_flattened_mut().iter_mut().enumerate() {
        let at = CELLS_AT + number * CELL;
        *cell = Cell { calls: long(row, at)?, bytes: long(row, at + 8)?, nanoseconds: long(row, at + 16)? };
    }
    Some(Operation { name: name.into(), all_wait: word(row, NAME)? & ALL_WAIT != 0, cells })
}

/// Text up to its zero byte.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
