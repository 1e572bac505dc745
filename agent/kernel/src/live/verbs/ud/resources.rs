//! What an open port holds: protection domain, registered memory, completion queue, queue pairs.

use super::super::ffi::{Context, RawContext};
use super::abi::{
    Ah, INIT, LOCAL_WRITE, MASK_PKEY_INDEX, MASK_PORT, MASK_QKEY, MASK_SQ_PSN, MASK_STATE, Mr, OP_POST_RECV,
    OP_POST_SEND, Pd, QPT_UD, Qp, QpAttr, QpCap, QpInitAttr, RTR, RTS, RecvWr, SEND_SIGNALED, SendWr, Sge, WR_SEND,
};
use super::functions::{Functions, functions};
use super::memory::{Memory, RECEIVE_SLOT, RECEIVES, SENDS, encode};
use super::queue::Queue;
use crate::datagrams::{OpenError, Q_KEY, Route, SendError};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::transmute;
use std::ptr::{self, NonNull};

type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
type PostRecv = unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int;

/// The resources, freed in the opposite order of their creation.
pub struct Resources {
    pub functions: &'static Functions,
    queue_pairs: Vec<NonNull<Qp>>,
    pub queue: Queue,
    mr: NonNull<Mr>,
    pub memory: Memory,
    pub pd: NonNull<Pd>,
    post_send: PostSend,
    post_recv: PostRecv,
    /// Closed last.
    context: Context,
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources").field("queue_pairs", &self.queue_pairs.len()).finish_non_exhaustive()
    }
}

impl Resources {
    /// Creates them and brings the queue pairs into the state in which they send and receive.
    pub fn create(
        context: Context,
        port: u8,
        name: &str,
        is_infiniband: bool,
        pairs: usize,
    ) -> Result<Self, OpenError> {
        let refused = |step| move |source| OpenError::Refused { port: name.to_owned(), step, source };
        let last = |step| refused(step)(io::Error::last_os_error());
        let functions = functions().map_err(OpenError::NoLibrary)?;
        let (post_send, post_recv) =
            operations(context.raw()).ok_or_else(|| OpenError::NoDatagrams(name.to_owned()))?;
        // SAFETY: an open context.
        let pd = NonNull::new(unsafe { (functions.alloc_pd)(context.raw()) });
        let pd = pd.ok_or_else(|| last("allocate a protection domain"))?;
        let memory = Memory::new(pairs);
        let (start, size) = (memory.start().cast::<c_void>(), memory.size());
        // SAFETY: the memory is ours and lives until the registration ends.
        let mr = unsafe { (functions.reg_mr)(pd.as_ptr(), start, size, LOCAL_WRITE) };
        let Some(mr) = NonNull::new(mr) else {
            let error = io::Error::last_os_error();
            // SAFETY: the domain exists and nothing uses it.
            unsafe { (functions.dealloc_pd)(pd.as_ptr()) };
            return Err(match error.raw_os_error() {
                Some(libc::ENOMEM | libc::EAGAIN) => memlock(name, size),
                _ => refused("register memory")(error),
            });
        };
        let queue = match Queue::create(functions, &context, SENDS * pairs + RECEIVES * pairs, is_infiniband) {
            Ok(queue) => queue,
            Err(error) => {
                // SAFETY: both exist and nothing uses them.
                unsafe {
                    (functions.dereg_mr)(mr.as_ptr());
                    (functions.dealloc_pd)(pd.as_ptr());
                }
                return Err(match error.raw_os_error() {
                    Some(libc::ENOMEM | libc::EAGAIN) => memlock(name, size),
                    _ => refused("create a completion queue")(error),
                });
            }
        };
        // From here on, `Drop` frees everything.
        let mut this =
            Self { functions, queue_pairs: Vec::new(), queue, mr, memory, pd, post_send, post_recv, context };
        for pair in 0..pairs {
            let qp = this.create_queue_pair().ok_or_else(|| match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => OpenError::NoDatagrams(name.to_owned()),
                error => refused("create a UD queue pair")(error),
            })?;
            this.queue_pairs.push(qp);
            this.start(qp, port).map_err(refused("start a UD queue pair"))?;
            for slot in 0..RECEIVES {
                this.post_receive(pair, pair * RECEIVES + slot).map_err(refused("take receive buffers"))?;
            }
        }
        Ok(this)
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Numbers of the queue pairs.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        // SAFETY: the queue pairs live as long as `self`.
        self.queue_pairs.iter().map(|qp| unsafe { (*qp.as_ptr()).number })
    }

    fn create_queue_pair(&self) -> Option<NonNull<Qp>> {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let mut wanted = QpInitAttr {
            qp_context: ptr::null_mut(),
            send_cq: self.queue.cq(),
            recv_cq: self.queue.cq(),
            srq: ptr::null_mut(),
            cap: QpCap {
                max_send_wr: number(SENDS),
                max_recv_wr: number(RECEIVES),
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            kind: QPT_UD,
            signal_all: 1,
        };
        // SAFETY: domain and completion queue exist and outlive the queue pair.
        NonNull::new(unsafe { (self.functions.create_qp)(self.pd.as_ptr(), &raw mut wanted) })
    }

    fn start(&self, qp: NonNull<Qp>, port: u8) -> io::Result<()> {
        let steps = [
            (
                QpAttr { state: INIT, q_key: Q_KEY, port, ..QpAttr::default() },
                MASK_STATE | MASK_PKEY_INDEX | MASK_PORT | MASK_QKEY,
            ),
            (QpAttr { state: RTR, ..QpAttr::default() }, MASK_STATE),
            (QpAttr { state: RTS, ..QpAttr::default() }, MASK_STATE | MASK_SQ_PSN),
        ];
        for (mut attr, mask) in steps {
            // SAFETY: the queue pair exists; the attributes live during the call.
            let status = unsafe { (self.functions.modify_qp)(qp.as_ptr(), &raw mut attr, mask) };
            if status != 0 {
                return Err(io::Error::from_raw_os_error(status.saturating_abs()));
            }
        }
        Ok(())
    }

    fn lkey(&self) -> u32 {
        // SAFETY: the registration lives as long as `self`.
        unsafe { (*self.mr.as_ptr()).lkey }
    }

    /// Gives a receive slot to the NIC.
    pub fn post_receive(&self, pair: usize, slot: usize) -> io::Result<()> {
        let qp = self.queue_pairs.get(pair).ok_or(io::ErrorKind::NotFound)?;
        let address = self.memory.receive_slot(slot) as u64;
        let mut sge = Sge { address, length: u32::try_from(RECEIVE_SLOT).unwrap_or(0), lkey: self.lkey() };
        let mut request =
            RecvWr { wr_id: encode(true, pair, slot), next: ptr::null_mut(), sg_list: &raw mut sge, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair exists; the provider copies the request; the slot is in registered memory.
        match unsafe { (self.post_recv)(qp.as_ptr(), &raw mut request, &raw mut bad) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.saturating_abs())),
        }
    }

    /// Sends a datagram; its send slot.
    pub fn post_send(
        &mut self,
        pair: usize,
        handle: NonNull<Ah>,
        route: &Route,
        bytes: &[u8],
        id: u64,
    ) -> Result<usize, SendError> {
        let qp = *self.queue_pairs.get(pair).ok_or(SendError::Refused(libc::ENOENT))?;
        let (slot, address) = self.memory.write(bytes, id, route.source_port).ok_or(SendError::Full)?;
        let length = u32::try_from(bytes.len()).unwrap_or(0);
        let mut sge = Sge { address: address as u64, length, lkey: self.lkey() };
        let mut request = SendWr {
            wr_id: encode(false, pair, slot),
            next: ptr::null_mut(),
            sg_list: &raw mut sge,
            num_sge: 1,
            opcode: WR_SEND,
            flags: SEND_SIGNALED,
            imm_data: 0,
            ah: handle.as_ptr(),
            remote_qpn: route.peer.queue_pair,
            remote_q_key: Q_KEY,
            rest: [0; 9],
        };
        let mut bad = ptr::null_mut();
        // SAFETY: queue pair and address handle exist; the provider copies the request; the slot is in registered memory.
        match unsafe { (self.post_send)(qp.as_ptr(), &raw mut request, &raw mut bad) } {
            0 => Ok(slot),
            error => {
                self.memory.sent(slot);
                Err(if error == libc::ENOMEM { SendError::Full } else { SendError::Refused(error) })
            }
        }
    }
}

/// Operations of the table that the header's inline functions call.
fn operations(context: *mut RawContext) -> Option<(PostSend, PostRecv)> {
    // SAFETY: an open context.
    let ops = unsafe { &(*context).ops };
    let (send, receive) = (ops[OP_POST_SEND], ops[OP_POST_RECV]);
    if send.is_null() || receive.is_null() {
        return None;
    }
    // SAFETY: the positions and types are those of `ibv_context_ops`; neither is null.
    Some(unsafe { (transmute::<*mut c_void, PostSend>(send), transmute::<*mut c_void, PostRecv>(receive)) })
}

fn memlock(port: &str, needed: usize) -> OpenError {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    let limit = match limit.rlim_cur {
        _ if !known => "unknown".to_owned(),
        libc::RLIM_INFINITY => "none for the process (look at the memory of its control group)".to_owned(),
        bytes => format!("{} KiB", bytes / 1024),
    };
    OpenError::Memlock { port: port.to_owned(), needed_kib: needed / 1024, limit }
}

impl Drop for Resources {
    fn drop(&mut self) {
        for qp in self.queue_pairs.drain(..) {
            // SAFETY: the queue pair exists and is not used after this.
            unsafe { (self.functions.destroy_qp)(qp.as_ptr()) };
        }
        self.queue.destroy();
        // SAFETY: both exist, and what used them is destroyed. The memory is freed after its registration ends.
        unsafe {
            (self.functions.dereg_mr)(self.mr.as_ptr());
            (self.functions.dealloc_pd)(self.pd.as_ptr());
        }
    }
}
