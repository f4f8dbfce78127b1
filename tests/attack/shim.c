// What the storms do to system calls on files below one folder: they fail, or the process dies just before one of them.
// A process that was started with this library loaded first calls `storm` to begin, and `storm_calls` to count.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { READS = 1, WRITES = 2, OPENS = 4, NAMES = 8, LOCKS = 16, STATS = 32 };
static char folder[PATH_MAX];
static long calls, first = -1, last;
static int fault, kinds;

// From call `from` up to `until`, those of the kinds `which` fail with `error`; 0 kills the process instead.
void storm(const char *below, long from, long until, int error, int which) {
    snprintf(folder, sizeof folder, "%s", below);
    calls = 0, first = from, last = until, fault = error, kinds = which;
}

long storm_calls(void) { return calls; }

// Whether a file, by its descriptor or by its name below the folder of a descriptor, lies below our folder.
static int lies_below(int number, const char *name) {
    char link[64], path[PATH_MAX];
    if (name && name[0] == '/') return !strncmp(name, folder, strlen(folder));
    if (number == AT_FDCWD) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", number);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return !strncmp(path, folder, strlen(folder));
}

static int strikes(int kind, int number, const char *name) {
    int before = errno;
    if (!folder[0] || !(kinds & kind) || !lies_below(number, name)) { errno = before; return 0; }
    errno = before;
    long now = __sync_fetch_and_add(&calls, 1);
    if (now < first || now >= last) return 0;
    if (!fault) kill(getpid(), SIGKILL);
    errno = fault;
    return 1;
}

#define WRAP(kind, number, path, type, name, given, passed)             \
    type name given {                                                   \
        static type (*real) given;                                      \
        if (!real) real = (type(*) given)dlsym(RTLD_NEXT, #name);       \
        return strikes(kind, number, path) ? -1 : real passed;          \
    }

WRAP(READS, fd, 0, ssize_t, read, (int fd, void *into, size_t most), (fd, into, most))
WRAP(WRITES, fd, 0, ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
WRAP(WRITES, fd, 0, int, fsync, (int fd), (fd))
WRAP(WRITES, fd, 0, int, fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(LOCKS, fd, 0, int, flock, (int fd, int how), (fd, how))
WRAP(NAMES, AT_FDCWD, path, int, unlink, (const char *path), (path))
WRAP(NAMES, fd, path, int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(NAMES, AT_FDCWD, path, int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(NAMES, fd, path, int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
WRAP(NAMES, AT_FDCWD, to, int, rename, (const char *from, const char *to), (from, to))
WRAP(NAMES, fd, to, int, renameat, (int from_fd, const char *from, int fd, const char *to), (from_fd, from, fd, to))
WRAP(STATS, AT_FDCWD, path, int, stat64, (const char *path, struct stat64 *into), (path, into))
WRAP(STATS, fd, 0, int, fstat64, (int fd, struct stat64 *into), (fd, into))
WRAP(STATS, fd, path, int, fstatat64, (int fd, const char *path, struct stat64 *into, int how), (fd, path, into, how))

#define WRAP_OPEN(name)                                                 \
    int name(const char *path, int flags, ...) {                        \
        static int (*real)(const char *, int, mode_t);                  \
        if (!real) real = (int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, #name); \
        va_list more;                                                   \
        va_start(more, flags);                                          \
        mode_t mode = va_arg(more, mode_t);                             \
        va_end(more);                                                   \
        return strikes(OPENS, AT_FDCWD, path) ? -1 : real(path, flags, mode); \
    }
#define WRAP_OPENAT(name)                                               \
    int name(int fd, const char *path, int flags, ...) {                \
        static int (*real)(int, const char *, int, mode_t);             \
        if (!real) real = (int (*)(int, const char *, int, mode_t))dlsym(RTLD_NEXT, #name); \
        va_list more;                                                   \
        va_start(more, flags);                                          \
        mode_t mode = va_arg(more, mode_t);                             \
        va_end(more);                                                   \
        return strikes(OPENS, fd, path) ? -1 : real(fd, path, flags, mode); \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)
