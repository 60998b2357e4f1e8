/* Between a process and its system: files that cannot be read, and a clock that jumps.
 *
 * Preloaded into a server. What goes wrong is in the file that SPIREA_FAULTS names, which the tests change while the
 * server runs: see faults.rs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct faults {
    /* Added to the time of day. */
    volatile int64_t seconds;
    /* Reads that failed. */
    volatile uint64_t failed;
    /* Files with this in their paths cannot be read; all can if it is empty. */
    volatile char unreadable[240];
};

static struct faults *faults(void) {
    static struct faults *mapped;
    static int tried;
    if (!tried) {
        tried = 1;
        const char *path = getenv("SPIREA_FAULTS");
        int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void *memory = file < 0 ? MAP_FAILED
                                : mmap(NULL, sizeof(struct faults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED) {
            static const char text[] = "SPIREA_FAULTS names no file of faults\n";
            if (write(2, text, sizeof text - 1) < 0) { /* it ends in any case */ }
            _exit(70);
        }
        mapped = memory;
    }
    return mapped;
}

__attribute__((constructor)) static void begin(void) { faults(); }

static int fails(int file) {
    struct faults *now = faults();
    if (!now->unreadable[0]) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!strstr(path, (const char *)now->unreadable)) return 0;
    __atomic_add_fetch(&now->failed, 1, __ATOMIC_SEQ_CST);
    errno = EIO;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t read(int file, void *to, size_t count) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = REAL(read);
    return fails(file) ? -1 : real(file, to, count);
}

ssize_t pread64(int file, void *to, size_t count, off64_t at) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = REAL(pread64);
    return fails(file) ? -1 : real(file, to, count, at);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t count, unsigned flags) {
    static ssize_t (*real)(int, off64_t *, int, off64_t *, size_t, unsigned);
    if (!real) real = REAL(copy_file_range);
    return fails(from) ? -1 : real(from, from_at, to, to_at, count, flags);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = REAL(clock_gettime);
    int result = real(clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += faults()->seconds;
    return result;
}
