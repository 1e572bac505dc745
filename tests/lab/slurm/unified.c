// Slurm's plugin for cgroup version 2 refuses hosts that also have hierarchies of version 1. Preloaded into slurmd there,
// this leaves the one line of version 2 in what it reads of /proc/self/cgroup; everything else is as it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    FILE *all = strcmp(path, "/proc/self/cgroup") == 0 ? fopen(path, "r") : NULL;
    if (all == NULL)
        return real(path, flags, mode);
    int some = memfd_create("cgroup", 0);
    char line[4096];
    while (some >= 0 && fgets(line, sizeof line, all) != NULL)
        if (strncmp(line, "0::", 3) == 0)
            (void)!write(some, line, strlen(line));
    fclose(all);
    lseek(some, 0, SEEK_SET);
    return some;
}
