/* Program of the tests, for four ranks.
 *
 *     check DIRECTORY count    makes a few operations of each kind, and writes what it knows of them into RANK.expected:
 *                              lines `operation group calls bytes smallest-size-of-the-class`
 *     check DIRECTORY late     repeats an MPI_Allreduce before which rank 2 sleeps for 40 ms
 *     check DIRECTORY even     the same, and nobody sleeps
 *
 * Each rank then makes RANK.ready, with its process id, and goes on until the file `stop` is there. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *directory;
static int rank, size;

static struct {
    const char *name, *group;
    unsigned long class, calls, bytes;
} known[256];

/* The program knows that it has called this with a message of so many bytes. */
static void know(const char *name, const char *group, unsigned long bytes) {
    unsigned long class = bytes >= 32 << 20 ? 32 << 20 : bytes >= 1 << 20 ? 1 << 20 : bytes >= 32 << 10 ? 32 << 10 : 0;
    int i = 0;
    while (known[i].name && (strcmp(known[i].name, name) || strcmp(known[i].group, group) || known[i].class != class))
        i++;
    known[i].name = name;
    known[i].group = group;
    known[i].class = class;
    known[i].calls++;
    known[i].bytes += bytes;
}

static FILE *file(const char *suffix) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.%s", directory, rank, suffix);
    FILE *made = fopen(path, "w");
    if (!made)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return made;
}

static int is_over(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/stop", directory);
    return access(path, F_OK) == 0;
}

static void ready(void) {
    char path[4096], whole[4096];
    FILE *made = file("pid");
    fprintf(made, "%d\n", (int)getpid());
    fclose(made);
    snprintf(path, sizeof path, "%s/%d.pid", directory, rank);
    snprintf(whole, sizeof whole, "%s/%d.ready", directory, rank);
    rename(path, whole);
}

static void collectives(int bytes) {
    int ints = bytes / 4;
    char *in = calloc((size_t)size, (size_t)bytes), *out = calloc((size_t)size, (size_t)bytes);
    int counts[16], at[16];
    for (int i = 0; i < size; i++) {
        counts[i] = bytes / 2;
        at[i] = i * bytes;
    }
    MPI_Comm copy, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy), know("Comm_dup", "world", 0);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half), know("Comm_split", "world", 0);
    for (int i = 0; i < 3; i++)
        MPI_Allreduce(in, out, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD), know("Allreduce", "world", 4ul * ints);
    MPI_Allreduce(MPI_IN_PLACE, out, ints, MPI_INT, MPI_SUM, copy), know("Allreduce", "world", 4ul * ints);
    MPI_Allreduce(in, out, ints, MPI_INT, MPI_SUM, half), know("Allreduce", "other", 4ul * ints);
    MPI_Barrier(half), know("Barrier", "other", 0);
    MPI_Bcast(in, bytes, MPI_BYTE, 1, MPI_COMM_WORLD), know("Bcast", "world", bytes);
    MPI_Reduce(in, out, ints, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD), know("Reduce", "world", 4ul * ints);
    MPI_Allgather(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, MPI_COMM_WORLD), know("Allgather", "world", bytes);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, bytes, MPI_CHAR, MPI_COMM_WORLD), know("Allgather", "world", bytes);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, counts, at, MPI_CHAR, MPI_COMM_WORLD), know("Allgatherv", "world", bytes / 2);
    MPI_Gather(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, 2, MPI_COMM_WORLD), know("Gather", "world", bytes);
    MPI_Scatter(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, 3, MPI_COMM_WORLD), know("Scatter", "world", bytes);
    MPI_Scatterv(out, counts, at, MPI_CHAR, rank == 0 ? MPI_IN_PLACE : in, bytes / 2, MPI_CHAR, 0, MPI_COMM_WORLD);
    know("Scatterv", "world", bytes / 2);
    MPI_Alltoall(in, bytes, MPI_CHAR, out, bytes, MPI_CHAR, MPI_COMM_WORLD), know("Alltoall", "world", (unsigned long)bytes * size);
    MPI_Alltoallv(in, counts, at, MPI_CHAR, out, counts, at, MPI_CHAR, MPI_COMM_WORLD);
    know("Alltoallv", "world", (unsigned long)bytes / 2 * size);
    for (int i = 0; i < size; i++)
        counts[i] = ints;
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD), know("Reduce_scatter", "world", 4ul * ints * size);
    MPI_Scan(in, out, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD), know("Scan", "world", 4ul * ints);
    MPI_Request request;
    MPI_Iallreduce(in, out, ints, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request), know("Iallreduce", "world", 4ul * ints);
    MPI_Wait(&request, MPI_STATUS_IGNORE), know("Wait", "other", 0);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
    free(in);
    free(out);
}

static void messages(int bytes) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    char *in = calloc(1, (size_t)bytes), *out = calloc(2, (size_t)bytes);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_commit(&three);
    MPI_Irecv(out, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]), know("Irecv", "other", 0);
    MPI_Isend(in, bytes / 12, three, right, 1, MPI_COMM_WORLD, &requests[1]), know("Isend", "other", bytes / 12 * 12ul);
    MPI_Waitall(2, requests, statuses), know("Waitall", "other", 0);
    MPI_Sendrecv(in, bytes, MPI_BYTE, right, 2, out, bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    know("Sendrecv", "other", bytes);
    /* The room for what is received is twice as large. */
    if (rank % 2 == 0) {
        MPI_Send(in, bytes, MPI_BYTE, right, 3, MPI_COMM_WORLD), know("Send", "other", bytes);
    } else {
        MPI_Recv(out, 2 * bytes, MPI_BYTE, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE), know("Recv", "other", bytes);
    }
    MPI_Send(in, bytes, MPI_BYTE, MPI_PROC_NULL, 4, MPI_COMM_WORLD), know("Send", "other", 0);
    MPI_Type_free(&three);
    free(in);
    free(out);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count != 3 || size < 2 || size > 16) {
        fprintf(stderr, "usage: check DIRECTORY count|late|even, with 2 to 16 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    directory = arguments[1];
    if (strcmp(arguments[2], "count") == 0) {
        for (int bytes = 1 << 10; bytes <= 4 << 20; bytes *= 64) {
            collectives(bytes);
            messages(bytes);
        }
        MPI_Barrier(MPI_COMM_WORLD), know("Barrier", "world", 0);
        FILE *expected = file("expected");
        for (int i = 0; known[i].name; i++)
            fprintf(expected, "%s %s %lu %lu %lu\n", known[i].name, known[i].group, known[i].calls, known[i].bytes, known[i].class);
        fclose(expected);
        ready();
        while (!is_over())
            usleep(10000);
    } else {
        int late = strcmp(arguments[2], "late") == 0;
        ready();
        for (int mine = 0, all = 0; !all;) {
            mine = rank == 0 && is_over();
            usleep(late && rank == 2 ? 40000 : 500);
            MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
