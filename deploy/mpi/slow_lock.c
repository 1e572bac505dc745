/* Preloaded before the library in a test: locking and removing take milliseconds, so that processes which start together are in each other's
 * way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/file.h>
#include <unistd.h>

static void wait_a_little(void) {
    static unsigned int number;
    number = number * 1103515245u + 12345u + (unsigned int)getpid();
    usleep(number / 65536u % 3000u);
}

int flock(int file, int operation) {
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    wait_a_little();
    return real(file, operation);
}

int unlinkat(int directory, const char *name, int flags) {
    int (*real)(int, const char *, int) = (int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat");
    wait_a_little();
    return real(directory, name, flags);
}
