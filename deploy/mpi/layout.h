/* File of counters of one process. The agent reads it as agent/collectives/src/mpi/layout.rs has it: change both, and the version.
 *
 * A header of 256 bytes, then one row of 320 bytes for each operation. Numbers have the byte order of the host. */
#ifndef FABRICLENS_MPI_LAYOUT_H
#define FABRICLENS_MPI_LAYOUT_H

#include <stdint.h>

#define FL_MAGIC 0x31495049534e4c46ULL /* "FLNSIPI1", written last */
#define FL_VERSION 1

/* Communicators with all ranks of MPI_COMM_WORLD; everything else. */
enum { FL_WORLD, FL_OTHER, FL_GROUPS };
/* Lower bounds of the classes of message sizes: 0, 32 KiB, 1 MiB, 32 MiB, 1 GiB, 32 GiB. */
enum { FL_SIZES = 6 };
/* Flag of an operation in which each rank waits for all others. */
enum { FL_ALL_WAIT = 1 };
/* Flag of a process in which several threads have called MPI. */
enum { FL_SEVERAL_THREADS = 1 };

struct fl_cell {
    uint64_t calls;
    uint64_t bytes;
    uint64_t nanoseconds;
};

struct fl_row {
    char name[24];
    uint32_t flags;
    uint32_t reserved;
    struct fl_cell cells[FL_GROUPS][FL_SIZES];
};

struct fl_header {
    uint64_t magic;
    uint32_t version;
    uint32_t length; /* of the file, bytes */
    uint32_t rows;
    uint32_t pid; /* in the process's own PID namespace */
    uint32_t rank;
    uint32_t size; /* of MPI_COMM_WORLD */
    uint64_t start; /* start of the process, clock ticks since boot, as in /proc/PID/stat */
    uint64_t world; /* equal in processes that were launched together */
    uint32_t flags;
    uint32_t ended; /* 1 after MPI_Finalize */
    uint64_t inside; /* 1 + row of the operation that the process is in; 0 outside */
    uint64_t entered; /* its begin, nanoseconds of CLOCK_MONOTONIC */
    char library[64]; /* name and version of the MPI library */
    uint32_t group;   /* 1 + group of that operation; 0 in files of libraries that do not tell */
    char reserved[116];
};

_Static_assert(sizeof(struct fl_header) == 256, "header");
_Static_assert(sizeof(struct fl_row) == 320, "row");

#endif
