//! The completion queue: with the NIC's time stamps where it has them, plain elsewhere.

use super::super::super::sys::set_nonblocking;
use super::super::ffi::{Context, RawContext};
use super::abi::{
    CREATE_CQ_EX_BEFORE, Channel, Cq, CqEx, CqInitAttrEx, DeviceAttrEx, EX_BYTE_LEN, EX_QP_NUM, EX_SL, EX_SLID,
    EX_SRC_QP, EX_TIMESTAMP, EX_WALL_CLOCK, OP_NOTIFY_CQ, OP_POLL_CQ, PollAttr, QUERY_DEVICE_EX_BEFORE, WC_SUCCESS, Wc,
};
use super::functions::Functions;
use super::memory;
use super::ticks::Ticks;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, transmute};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

type QueryDeviceEx = unsafe extern "C" fn(*mut RawContext, *const c_void, *mut DeviceAttrEx, usize) -> c_int;
type CreateCqEx = unsafe extern "C" fn(*mut RawContext, *mut CqInitAttrEx) -> *mut CqEx;
type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
type NotifyCq = unsafe extern "C" fn(*mut Cq, c_int) -> c_int;

/// A completion.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    pub wr_id: u64,
    pub ok: bool,
    pub status: c_int,
    pub byte_len: u32,
    pub src_qp: u32,
    pub slid: u16,
    pub service_level: u8,
    pub at: Stamp,
}

/// Time of a completion.
#[derive(Clone, Copy, Debug)]
pub enum Stamp {
    /// By the NIC, nanoseconds of its clock.
    Hardware(u64),
    /// The NIC tells none.
    Software,
}

/// Who stamps completions.
#[derive(Clone, Copy, Debug)]
enum Clock {
    None,
    Ticks(Ticks),
    Wall,
}

/// The completion queue and its channel.
pub struct Queue {
    functions: &'static Functions,
    channel: NonNull<Channel>,
    cq: NonNull<Cq>,
    clock: Clock,
    /// Whether received datagrams have a LID and a service level.
    is_infiniband: bool,
    poll: PollCq,
    notify: NotifyCq,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Queue {
    /// Creates the queue with at least `entries`.
    pub fn create(
        functions: &'static Functions,
        context: &Context,
        entries: usize,
        is_infiniband: bool,
    ) -> io::Result<Self> {
        // SAFETY: an open context.
        let ops = unsafe { &(*context.raw()).ops };
        let (poll, notify) = (ops[OP_POLL_CQ], ops[OP_NOTIFY_CQ]);
        if poll.is_null() || notify.is_null() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        // SAFETY: the positions and types are those of `ibv_context_ops`; neither is null.
        let (poll, notify) =
            unsafe { (transmute::<*mut c_void, PollCq>(poll), transmute::<*mut c_void, NotifyCq>(notify)) };
        // SAFETY: an open context.
        let channel = unsafe { (functions.create_comp_channel)(context.raw()) };
        let channel = NonNull::new(channel).ok_or_else(io::Error::last_os_error)?;
        let made = stamped(context, channel, entries, is_infiniband).or_else(|| {
            let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
            // SAFETY: an open context and a channel of it; the first completion vector always exists.
            let cq = unsafe { (functions.create_cq)(context.raw(), entries, ptr::null_mut(), channel.as_ptr(), 0) };
            Some((NonNull::new(cq)?, Clock::None))
        });
        let Some((cq, clock)) = made else {
            let error = io::Error::last_os_error();
            // SAFETY: the channel exists and nothing uses it.
            unsafe { (functions.destroy_comp_channel)(channel.as_ptr()) };
            return Err(error);
        };
        let mut queue = Self { functions, channel, cq, clock, is_infiniband, poll, notify };
        match set_nonblocking(queue.descriptor()) {
            Ok(()) => Ok(queue),
            Err(error) => {
                queue.destroy();
                Err(error)
            }
        }
    }

    pub fn cq(&self) -> *mut Cq {
        self.cq.as_ptr()
    }

    pub fn has_hardware_time(&self) -> bool {
        !matches!(self.clock, Clock::None)
    }

    /// Descriptor that is readable when a notification has come.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel and its descriptor live as long as the queue, which the borrow keeps.
        unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) }
    }

    /// Requests a notification for the next completion.
    pub fn notify(&self) -> io::Result<()> {
        // SAFETY: the queue exists.
        match unsafe { (self.notify)(self.cq.as_ptr(), 0) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.saturating_abs())),
        }
    }

    /// Takes and acknowledges the notifications that have come.
    pub fn take_event(&self) {
        let (mut cq, mut user) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel exists and its descriptor does not block; the library fills both.
        while unsafe { (self.functions.get_cq_event)(self.channel.as_ptr(), &raw mut cq, &raw mut user) } == 0 {
            // SAFETY: the queue of the event, which is acknowledged once.
            unsafe { (self.functions.ack_cq_events)(cq, 1) };
        }
    }

    /// Appends at most `most` completions to `out`.
    pub fn poll(&mut self, out: &mut Vec<Raw>, most: usize) -> io::Result<()> {
        if self.has_hardware_time() { self.poll_stamped(out, most) } else { self.poll_plain(out, most) }
    }

    fn poll_plain(&self, out: &mut Vec<Raw>, most: usize) -> io::Result<()> {
        let mut entries = [Wc::default(); 16];
        while out.len() < most {
            // SAFETY: the queue exists; the provider writes at most as many entries as it is told.
            let got = unsafe { (self.poll)(self.cq.as_ptr(), 16, entries.as_mut_ptr()) };
            let got = usize::try_from(got).map_err(|_| io::Error::from(io::ErrorKind::Other))?;
            out.extend(entries.iter().take(got).map(|wc| Raw {
                wr_id: wc.wr_id,
                ok: wc.status == WC_SUCCESS,
                status: wc.status,
                byte_len: wc.byte_len,
                src_qp: wc.src_qp,
                slid: wc.slid,
                service_level: wc.service_level,
                at: Stamp::Software,
            }));
            if got < entries.len() {
                break;
            }
        }
        Ok(())
    }

    fn poll_stamped(&mut self, out: &mut Vec<Raw>, most: usize) -> io::Result<()> {
        let cq = self.cq.as_ptr().cast::<CqEx>();
        let missing = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        // SAFETY: created by `create_cq_ex`, so it is an extended queue.
        let (start, next, end) = unsafe { ((*cq).start_poll, (*cq).next_poll, (*cq).end_poll) };
        let (start, next, end) = (start.ok_or_else(missing)?, next.ok_or_else(missing)?, end.ok_or_else(missing)?);
        let mut attr = PollAttr { comp_mask: 0 };
        // SAFETY: the queue exists and is not being polled.
        match unsafe { start(cq, &raw mut attr) } {
            0 => {}
            // Empty, or the wall clock is being updated: the next poll reads it.
            libc::ENOENT | libc::EBUSY | libc::EAGAIN => return Ok(()),
            error => return Err(io::Error::from_raw_os_error(error.saturating_abs())),
        }
        let mut status = 0;
        while status == 0 {
            // SAFETY: between start and end of polling, at a completion.
            let raw = unsafe { self.read(cq) };
            out.push(raw);
            if out.len() >= most {
                break;
            }
            // SAFETY: as above.
            status = unsafe { next(cq) };
        }
        // SAFETY: polling was started.
        unsafe { end(cq) };
        Ok(())
    }

    /// # Safety
    /// `cq` is at a completion.
    unsafe fn read(&mut self, cq: *mut CqEx) -> Raw {
        let is_infiniband = self.is_infiniband;
        // SAFETY: by contract; fields that are read were requested at creation, and their functions are set then.
        let of = |field: Option<unsafe extern "C" fn(*mut CqEx) -> u32>| unsafe { field.map_or(0, |read| read(cq)) };
        // SAFETY: by contract.
        let (wr_id, status, time) = unsafe {
            let read =
                if matches!(self.clock, Clock::Wall) { (*cq).read_wall_clock_ns } else { (*cq).read_completion_ts };
            ((*cq).wr_id, (*cq).status, if (*cq).status == WC_SUCCESS { read.map_or(0, |read| read(cq)) } else { 0 })
        };
        let at = match &mut self.clock {
            Clock::Ticks(ticks) if status == WC_SUCCESS => Stamp::Hardware(ticks.nanoseconds(time)),
            Clock::Wall if status == WC_SUCCESS => Stamp::Hardware(time),
            _ => Stamp::Software,
        };
        let is_receive = memory::decode(wr_id).0 && status == WC_SUCCESS;
        // SAFETY: by contract; the length and the sender of a receive, and on InfiniBand its LID and service level.
        let (byte_len, src_qp, slid, service_level) = unsafe {
            if is_receive {
                let slid = if is_infiniband { of((*cq).read_slid) } else { 0 };
                let level = if is_infiniband { (*cq).read_sl.map_or(0, |read| read(cq)) } else { 0 };
                (of((*cq).read_byte_len), of((*cq).read_src_qp), slid, level)
            } else {
                (0, 0, 0, 0)
            }
        };
        let slid = u16::try_from(slid & 0xffff).unwrap_or(0);
        Raw { wr_id, ok: status == WC_SUCCESS, status, byte_len, src_qp, slid, service_level, at }
    }

    /// Destroys the queue; nothing uses it any more.
    pub fn destroy(&mut self) {
        // SAFETY: both exist, once; the queue pairs that used the queue are destroyed.
        unsafe {
            (self.functions.destroy_cq)(self.cq.as_ptr());
            (self.functions.destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}

/// A queue with the NIC's time stamps: raw with a known frequency, else its wall clock. `None` if the device has neither.
fn stamped(
    context: &Context,
    channel: NonNull<Channel>,
    entries: usize,
    is_infiniband: bool,
) -> Option<(NonNull<Cq>, Clock)> {
    // SAFETY: distances and types are those of `verbs_context`.
    let (query, create) = unsafe {
        (
            context.extension::<QueryDeviceEx>(QUERY_DEVICE_EX_BEFORE)?,
            context.extension::<CreateCqEx>(CREATE_CQ_EX_BEFORE)?,
        )
    };
    let mut attr = DeviceAttrEx {
        original: [0; 29],
        comp_mask: 0,
        odp: [0; 3],
        timestamp_mask: 0,
        core_clock_khz: 0,
        rest: [0; 15],
    };
    // SAFETY: an open context; the provider writes at most the size that it is told.
    if unsafe { query(context.raw(), ptr::null(), &raw mut attr, size_of::<DeviceAttrEx>()) } != 0
        || attr.timestamp_mask == 0
    {
        return None;
    }
    let mut flags = EX_BYTE_LEN | EX_QP_NUM | EX_SRC_QP;
    if is_infiniband {
        flags |= EX_SLID | EX_SL;
    }
    let make = |clock: u64| {
        let mut wanted = CqInitAttrEx {
            cqe: u32::try_from(entries).unwrap_or(u32::MAX),
            cq_context: ptr::null_mut(),
            channel: channel.as_ptr(),
            comp_vector: 0,
            wc_flags: flags | clock,
            comp_mask: 0,
            flags: 0,
            parent_domain: ptr::null_mut(),
        };
        // SAFETY: an open context and a channel of it.
        NonNull::new(unsafe { create(context.raw(), &raw mut wanted) }).map(NonNull::cast::<Cq>)
    };
    let ticks = Ticks::new(attr.timestamp_mask, attr.core_clock_khz);
    let by_ticks = ticks.and_then(|ticks| Some((make(EX_TIMESTAMP)?, Clock::Ticks(ticks))));
    by_ticks.or_else(|| Some((make(EX_WALL_CLOCK)?, Clock::Wall)))
}
