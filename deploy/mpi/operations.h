/* Operations that are counted. To add one, add a row:
 *
 *     ROW(name, flags, group, before, bytes, parameters, arguments)
 *
 * flags       FL_ALL_WAIT if no rank can leave before all others have entered, so that the one that comes last spends least time in it
 * group       group_of(comm) for a collective operation, FL_OTHER for all else
 * before      statement before the call, usually NONE
 * bytes       size of the message: what this rank puts in, or gets where another one puts in; evaluated after the call. 0 if unknown
 * parameters  as in mpi.h, with H for handles (MPI_Comm, MPI_Datatype, MPI_Op, MPI_Win, MPI_Message) and void * for pointers to them
 *
 * The agent takes names and flags from the file of counters and needs no change. */

/* Of a communicator between two groups, ranks that are neither root nor partner (negative root) may give any type. */
#define rooted(bytes) (root < 0 ? 0 : (bytes))
/* Nothing goes to MPI_PROC_NULL. */
#define sent(peer, bytes) ((peer) == MPI_PROC_NULL ? 0 : (bytes))

#define COLLECTIVE(name, flags, bytes, parameters, arguments) ROW(name, flags, group_of(comm), NONE, bytes, parameters, arguments)
#define OTHER(name, bytes, parameters, arguments) ROW(name, 0, FL_OTHER, NONE, bytes, parameters, arguments)

/* A blocking collective and its nonblocking form, which only starts it: no rank waits there. */
#define BOTH(name, small, flags, bytes, parameters, arguments, started, start)                                                               \
    COLLECTIVE(name, flags, bytes, parameters, arguments)                                                                                    \
    COLLECTIVE(I##small, 0, bytes, started, start)

BOTH(Barrier, barrier, FL_ALL_WAIT, 0, (H comm), (comm), (H comm, void *request), (comm, request))
BOTH(Bcast, bcast, 0, rooted(message(count, type)), (void *buffer, int count, H type, int root, H comm), (buffer, count, type, root, comm),
     (void *buffer, int count, H type, int root, H comm, void *request), (buffer, count, type, root, comm, request))
BOTH(Allreduce, allreduce, FL_ALL_WAIT, message(count, type), (const void *in, void *out, int count, H type, H op, H comm),
     (in, out, count, type, op, comm), (const void *in, void *out, int count, H type, H op, H comm, void *request),
     (in, out, count, type, op, comm, request))
BOTH(Reduce, reduce, 0, rooted(message(count, type)), (const void *in, void *out, int count, H type, H op, int root, H comm),
     (in, out, count, type, op, root, comm), (const void *in, void *out, int count, H type, H op, int root, H comm, void *request),
     (in, out, count, type, op, root, comm, request))
BOTH(Reduce_scatter, reduce_scatter, FL_ALL_WAIT, messages(counts, comm, type),
     (const void *in, void *out, const int *counts, H type, H op, H comm), (in, out, counts, type, op, comm),
     (const void *in, void *out, const int *counts, H type, H op, H comm, void *request), (in, out, counts, type, op, comm, request))
BOTH(Reduce_scatter_block, reduce_scatter_block, FL_ALL_WAIT, message(count, type) * size_of(comm),
     (const void *in, void *out, int count, H type, H op, H comm), (in, out, count, type, op, comm),
     (const void *in, void *out, int count, H type, H op, H comm, void *request), (in, out, count, type, op, comm, request))
BOTH(Scan, scan, 0, message(count, type), (const void *in, void *out, int count, H type, H op, H comm), (in, out, count, type, op, comm),
     (const void *in, void *out, int count, H type, H op, H comm, void *request), (in, out, count, type, op, comm, request))
BOTH(Exscan, exscan, 0, message(count, type), (const void *in, void *out, int count, H type, H op, H comm), (in, out, count, type, op, comm),
     (const void *in, void *out, int count, H type, H op, H comm, void *request), (in, out, count, type, op, comm, request))
BOTH(Allgather, allgather, FL_ALL_WAIT, in == MPI_IN_PLACE ? message(gets, out_type) : message(count, type),
     (const void *in, int count, H type, void *out, int gets, H out_type, H comm), (in, count, type, out, gets, out_type, comm),
     (const void *in, int count, H type, void *out, int gets, H out_type, H comm, void *request),
     (in, count, type, out, gets, out_type, comm, request))
BOTH(Allgatherv, allgatherv, FL_ALL_WAIT, in == MPI_IN_PLACE ? message(own(gets, comm), out_type) : message(count, type),
     (const void *in, int count, H type, void *out, const int *gets, const int *at, H out_type, H comm),
     (in, count, type, out, gets, at, out_type, comm),
     (const void *in, int count, H type, void *out, const int *gets, const int *at, H out_type, H comm, void *request),
     (in, count, type, out, gets, at, out_type, comm, request))
BOTH(Gather, gather, 0, rooted(in == MPI_IN_PLACE ? message(gets, out_type) : message(count, type)),
     (const void *in, int count, H type, void *out, int gets, H out_type, int root, H comm), (in, count, type, out, gets, out_type, root, comm),
     (const void *in, int count, H type, void *out, int gets, H out_type, int root, H comm, void *request),
     (in, count, type, out, gets, out_type, root, comm, request))
BOTH(Gatherv, gatherv, 0, rooted(in == MPI_IN_PLACE ? message(own(gets, comm), out_type) : message(count, type)),
     (const void *in, int count, H type, void *out, const int *gets, const int *at, H out_type, int root, H comm),
     (in, count, type, out, gets, at, out_type, root, comm),
     (const void *in, int count, H type, void *out, const int *gets, const int *at, H out_type, int root, H comm, void *request),
     (in, count, type, out, gets, at, out_type, root, comm, request))
BOTH(Scatter, scatter, 0, rooted(out == MPI_IN_PLACE ? message(count, type) : message(gets, out_type)),
     (const void *in, int count, H type, void *out, int gets, H out_type, int root, H comm), (in, count, type, out, gets, out_type, root, comm),
     (const void *in, int count, H type, void *out, int gets, H out_type, int root, H comm, void *request),
     (in, count, type, out, gets, out_type, root, comm, request))
BOTH(Scatterv, scatterv, 0, rooted(out == MPI_IN_PLACE ? message(own(counts, comm), type) : message(gets, out_type)),
     (const void *in, const int *counts, const int *at, H type, void *out, int gets, H out_type, int root, H comm),
     (in, counts, at, type, out, gets, out_type, root, comm),
     (const void *in, const int *counts, const int *at, H type, void *out, int gets, H out_type, int root, H comm, void *request),
     (in, counts, at, type, out, gets, out_type, root, comm, request))
BOTH(Alltoall, alltoall, FL_ALL_WAIT, (in == MPI_IN_PLACE ? message(gets, out_type) : message(count, type)) * size_of(comm),
     (const void *in, int count, H type, void *out, int gets, H out_type, H comm), (in, count, type, out, gets, out_type, comm),
     (const void *in, int count, H type, void *out, int gets, H out_type, H comm, void *request),
     (in, count, type, out, gets, out_type, comm, request))
/* Ranks that exchange nothing may leave early. */
BOTH(Alltoallv, alltoallv, 0, in == MPI_IN_PLACE ? messages(gets, comm, out_type) : messages(counts, comm, type),
     (const void *in, const int *counts, const int *at, H type, void *out, const int *gets, const int *out_at, H out_type, H comm),
     (in, counts, at, type, out, gets, out_at, out_type, comm),
     (const void *in, const int *counts, const int *at, H type, void *out, const int *gets, const int *out_at, H out_type, H comm, void *request),
     (in, counts, at, type, out, gets, out_at, out_type, comm, request))
COLLECTIVE(Comm_dup, 0, 0, (H comm, void *made), (comm, made))
COLLECTIVE(Comm_split, 0, 0, (H comm, int color, int key, void *made), (comm, color, key, made))

OTHER(Send, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm), (buffer, count, type, peer, tag, comm))
OTHER(Ssend, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm), (buffer, count, type, peer, tag, comm))
OTHER(Bsend, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm), (buffer, count, type, peer, tag, comm))
OTHER(Rsend, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm), (buffer, count, type, peer, tag, comm))
OTHER(Isend, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm, void *request),
      (buffer, count, type, peer, tag, comm, request))
OTHER(Issend, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm, void *request),
      (buffer, count, type, peer, tag, comm, request))
OTHER(Ibsend, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm, void *request),
      (buffer, count, type, peer, tag, comm, request))
OTHER(Irsend, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, int tag, H comm, void *request),
      (buffer, count, type, peer, tag, comm, request))
ROW(Recv, 0, FL_OTHER, OWN_STATUS, received(status), (void *buffer, int count, H type, int peer, int tag, H comm, void *status),
    (buffer, count, type, peer, tag, comm, status))
/* What arrives is known when the request is complete; the sender has it. */
OTHER(Irecv, 0, (void *buffer, int count, H type, int peer, int tag, H comm, void *request), (buffer, count, type, peer, tag, comm, request))
OTHER(Sendrecv, sent(to, message(count, type)),
      (const void *buffer, int count, H type, int to, int tag, void *out, int gets, H out_type, int from, int out_tag, H comm, void *status),
      (buffer, count, type, to, tag, out, gets, out_type, from, out_tag, comm, status))
OTHER(Sendrecv_replace, sent(to, message(count, type)),
      (void *buffer, int count, H type, int to, int tag, int from, int out_tag, H comm, void *status),
      (buffer, count, type, to, tag, from, out_tag, comm, status))
OTHER(Probe, 0, (int from, int tag, H comm, void *status), (from, tag, comm, status))
OTHER(Mprobe, 0, (int from, int tag, H comm, void *matched, void *status), (from, tag, comm, matched, status))
ROW(Mrecv, 0, FL_OTHER, OWN_STATUS, received(status), (void *buffer, int count, H type, void *matched, void *status),
    (buffer, count, type, matched, status))
OTHER(Start, 0, (void *request), (request))
OTHER(Startall, 0, (int count, void *requests), (count, requests))
OTHER(Wait, 0, (void *request, void *status), (request, status))
OTHER(Waitall, 0, (int count, void *requests, void *statuses), (count, requests, statuses))
OTHER(Waitany, 0, (int count, void *requests, void *index, void *status), (count, requests, index, status))
OTHER(Waitsome, 0, (int count, void *requests, void *done, void *indices, void *statuses), (count, requests, done, indices, statuses))

OTHER(Put, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, MPI_Aint at, int gets, H out_type, H win),
      (buffer, count, type, peer, at, gets, out_type, win))
OTHER(Get, sent(peer, message(count, type)), (void *buffer, int count, H type, int peer, MPI_Aint at, int gets, H out_type, H win),
      (buffer, count, type, peer, at, gets, out_type, win))
OTHER(Accumulate, sent(peer, message(count, type)), (const void *buffer, int count, H type, int peer, MPI_Aint at, int gets, H out_type, H op, H win),
      (buffer, count, type, peer, at, gets, out_type, op, win))
OTHER(Win_fence, 0, (int hint, H win), (hint, win))
OTHER(Win_flush, 0, (int peer, H win), (peer, win))
OTHER(Win_flush_all, 0, (H win), (win))
OTHER(Win_unlock, 0, (int peer, H win), (peer, win))
OTHER(Win_unlock_all, 0, (H win), (win))
OTHER(Win_complete, 0, (H win), (win))
OTHER(Win_wait, 0, (H win), (win))

#undef BOTH
#undef rooted
#undef sent
#undef OTHER
#undef COLLECTIVE
