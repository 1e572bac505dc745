/* What counting costs: for two ranks (or more), preloaded with the library. Blocks of calls of MPI_ functions, which the library counts,
 * and of PMPI_ functions, which it does not, alternate in one run. Of the blocks of each kind the one at a tenth of the sorted times is
 * printed, as nanoseconds per call: other programs on the processors lengthen the others.
 *
 *     mpirun -n 2 -x LD_PRELOAD=.../libfabriclens-mpi.so overhead */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCKS = 301, SHOWN = BLOCKS / 10 };

static char *in, *out;
static int rank, size, bytes;

static void local(int counted) {
    if (counted)
        MPI_Send(in, bytes, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    else
        PMPI_Send(in, bytes, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
}

/* Half of a round trip is a call each of Send and Recv. */
static void round_trip(int counted) {
    int first = rank == 0, peer = 1 - rank;
    if (rank > 1)
        return;
    for (int half = 0; half < 2; half++) {
        if (counted && first)
            MPI_Send(in, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        else if (counted)
            MPI_Recv(out, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (first)
            PMPI_Send(in, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        else
            PMPI_Recv(out, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        first = !first;
    }
}

static void allreduce(int counted) {
    if (counted)
        MPI_Allreduce(in, out, bytes / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else
        PMPI_Allreduce(in, out, bytes / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*step)(int), int calls, int of_step) {
    static double times[2][BLOCKS];
    for (int block = -5; block < BLOCKS; block++) {
        for (int turn = 0; turn < 2; turn++) {
            /* Which of the two goes first alternates too. */
            int counted = (turn + block) & 1;
            PMPI_Barrier(MPI_COMM_WORLD);
            double begin = now();
            for (int i = 0; i < calls; i++)
                step(counted);
            if (block >= 0)
                times[counted][block] = (now() - begin) / calls / of_step;
        }
    }
    if (rank != 0)
        return;
    for (int i = 0; i < 2; i++)
        qsort(times[i], BLOCKS, sizeof times[i][0], compare);
    double without = times[0][SHOWN], more = times[1][SHOWN] - without;
    printf("%-12s %8d B  without %9.0f ns (fastest %9.0f)  more %6.0f ns (fastest %6.0f)  %6.2f %%\n", name, bytes, without, times[0][0],
           more, times[1][0] - times[0][0], 100 * more / without);
    fflush(stdout);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    in = calloc(1, 1 << 20);
    out = calloc(1, 1 << 20);
    bytes = 1 << 10;
    measure("nothing sent", local, 1000, 1);
    for (bytes = 1 << 10; bytes <= 1 << 20; bytes *= bytes == 64 << 10 ? 16 : 8) {
        int calls = bytes <= 1 << 10 ? 200 : bytes <= 8 << 10 ? 50 : bytes <= 64 << 10 ? 20 : 4;
        if (size > 1)
            measure("Send, Recv", round_trip, calls, 2);
        measure("Allreduce", allreduce, calls, 1);
    }
    MPI_Finalize();
    return 0;
}
