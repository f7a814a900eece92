/* Preloaded into a program: records what it does to the files below DISK_HOME, and lets calls fail.
 *
 * Each record is appended to DISK_RECORD after its call has succeeded. fsync only records: a killed
 * program leaves its writes in the page cache, so the reader can tell what a power cut may lose.
 * DISK_FAULTS is a mapped `struct faults`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, RENAME = 4, TRUNCATE = 8, CREATE = 16, MKDIR = 32, UNLINK = 64, SHORT = 128 };

struct faults {
    uint32_t calls; /* which calls fail; SHORT: the first write that fails stores its first half */
    int32_t error;
    int64_t skipped; /* how many of them succeed before */
    int64_t count;   /* how many fail then; negative for all */
    int64_t hits;
};

struct record {
    uint32_t kind;
    uint32_t first;  /* bytes of the first path */
    uint32_t second; /* bytes of the second path, or of the data */
    uint32_t spare;
    uint64_t inode;
    int64_t offset;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char home[PATH_MAX];
static size_t home_length;
static const char *log_path;
static int log_fd = -1;
static ino_t log_inode;
static struct faults *faults;

static void open_log(void)
{
    int fd = syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    struct stat found;
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 900);
    if (log_fd < 0) {
        log_fd = fd;
    } else {
        close(fd);
    }
    if (fstat(log_fd, &found) != 0) abort();
    log_inode = found.st_ino;
}

static void free_mutex(void)
{
    pthread_mutex_init(&mutex, NULL);
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("DISK_HOME"), *control = getenv("DISK_FAULTS");
    log_path = getenv("DISK_RECORD");
    if (folder == NULL || log_path == NULL) return;
    log_path = strdup(log_path);
    strncpy(home, folder, sizeof home - 2);
    strcat(home, "/");
    home_length = strlen(home);
    open_log();
    if (control != NULL) {
        int fd = syscall(SYS_openat, AT_FDCWD, control, O_RDWR | O_CLOEXEC);
        void *mapped = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || mapped == MAP_FAILED) abort();
        faults = mapped;
        close(fd);
    }
    pthread_atfork(NULL, NULL, free_mutex);
}

static void put(uint32_t kind, uint64_t inode, int64_t offset, const char *first, const void *second, size_t bytes)
{
    struct record head = {kind, first ? strlen(first) : 0, bytes, 0, inode, offset};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)first, head.first}, {(void *)second, bytes}};
    struct stat found;
    if (fstat(log_fd, &found) != 0 || found.st_ino != log_inode) open_log();
    ssize_t whole = sizeof head + head.first + bytes;
    if (syscall(SYS_writev, log_fd, parts, 3) != whole) abort();
}

/* The canonical path, if it is below the home; the last name is not followed. */
static int below_home(int folder, const char *path, char *found)
{
    char copy[PATH_MAX], parent[PATH_MAX], *name;
    if (!home_length) return 0;
    if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, parent, sizeof parent - 1);
        if (length < 0) return 0;
        parent[length] = 0;
        if (snprintf(copy, sizeof copy, "%s/%s", parent, path) >= (int)sizeof copy) return 0;
    } else {
        if (strlen(path) >= sizeof copy) return 0;
        strcpy(copy, path);
    }
    for (size_t end = strlen(copy); end > 1 && copy[end - 1] == '/'; end--) copy[end - 1] = 0;
    name = strrchr(copy, '/');
    *name++ = 0;
    if (realpath(copy[0] ? copy : "/", parent) == NULL) return 0;
    if (snprintf(found, PATH_MAX, "%s/%s", parent, name) >= PATH_MAX) return 0;
    return strncmp(found, home, home_length) == 0;
}

static int fd_below_home(int fd, char *path)
{
    char link[64];
    if (!home_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    if (strncmp(path, home, home_length) == 0) return 1;
    return (size_t)length == home_length - 1 && strncmp(path, home, length) == 0;
}

static int must_fail(uint32_t call)
{
    if (faults == NULL || !(faults->calls & call)) return 0;
    if (faults->skipped > 0) {
        faults->skipped--;
        return 0;
    }
    if (faults->count == 0) return 0;
    if (faults->count > 0) faults->count--;
    faults->hits++;
    if (faults->error < 0) kill(getpid(), SIGKILL);
    errno = faults->error;
    return 1;
}

#define LOCK() pthread_mutex_lock(&mutex)
#define UNLOCK() (pthread_mutex_unlock(&mutex))
#define KEEPING_ERRNO(statement) do { int kept = errno; statement; errno = kept; } while (0)

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    char place[PATH_MAX];
    struct stat before, found;
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    if (!writes || !below_home(folder, path, place)) return syscall(SYS_openat, folder, path, flags, mode);
    LOCK();
    int is_new = fstatat(folder, path, &before, 0) != 0;
    int fd = -1;
    if (!(is_new && flags & O_CREAT && must_fail(CREATE))) fd = syscall(SYS_openat, folder, path, flags, mode);
    if (fd >= 0) KEEPING_ERRNO({
        if (fd_below_home(fd, place) && fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
            put(is_new ? 'C' : 'O', found.st_ino, 0, place, NULL, 0);
            if (flags & O_TRUNC) put('T', found.st_ino, 0, NULL, NULL, 0);
        }
    });
    UNLOCK();
    return fd;
}

#define OPEN_MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, last); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) { OPEN_MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { OPEN_MODE(flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *path, int flags, ...) { OPEN_MODE(flags) return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { OPEN_MODE(flags) return opened(folder, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* The inode of a regular file below the home, else 0. */
static ino_t kept_file(int fd)
{
    char path[PATH_MAX];
    struct stat found;
    if (!home_length || fd == log_fd || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return 0;
    return fd_below_home(fd, path) ? found.st_ino : 0;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    int kept = errno;
    ino_t inode = kept_file(fd);
    errno = kept;
    if (!inode) return syscall(SYS_write, fd, data, bytes);
    LOCK();
    ssize_t done = -1;
    if (!must_fail(WRITE)) {
        done = syscall(SYS_write, fd, data, bytes);
    } else if (faults->calls & SHORT && bytes > 1) {
        faults->calls &= ~SHORT;
        done = syscall(SYS_write, fd, data, bytes / 2);
    }
    if (done > 0) KEEPING_ERRNO(put('W', inode, lseek(fd, 0, SEEK_CUR) - done, NULL, data, done));
    UNLOCK();
    return done;
}

static ssize_t written_at(int fd, const void *data, size_t bytes, off_t offset)
{
    int kept = errno;
    ino_t inode = kept_file(fd);
    errno = kept;
    if (!inode) return syscall(SYS_pwrite64, fd, data, bytes, offset);
    LOCK();
    ssize_t done = must_fail(WRITE) ? -1 : syscall(SYS_pwrite64, fd, data, bytes, offset);
    if (done > 0) KEEPING_ERRNO(put('W', inode, offset, NULL, data, done));
    UNLOCK();
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) { return written_at(fd, data, bytes, offset); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t offset) { return written_at(fd, data, bytes, offset); }

/* Copies inside the kernel become reads and writes. */
ssize_t sendfile(int out, int in, off_t *offset, size_t bytes)
{
    char data[1 << 16];
    if (!kept_file(out)) return syscall(SYS_sendfile, out, in, offset, bytes);
    if (bytes > sizeof data) bytes = sizeof data;
    ssize_t got = offset ? pread(in, data, bytes, *offset) : read(in, data, bytes);
    if (got <= 0) return got;
    ssize_t done = write(out, data, got);
    if (offset && done > 0) *offset += done;
    return done;
}

ssize_t sendfile64(int out, int in, off_t *offset, size_t bytes) { return sendfile(out, in, offset, bytes); }

ssize_t copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset, size_t bytes, unsigned flags)
{
    if (!kept_file(out)) return syscall(SYS_copy_file_range, in, in_offset, out, out_offset, bytes, flags);
    errno = EXDEV;
    return -1;
}

static int truncated(int fd, off_t size)
{
    ino_t inode = kept_file(fd);
    if (!inode) return syscall(SYS_ftruncate, fd, size);
    LOCK();
    int failed = must_fail(TRUNCATE) ? -1 : syscall(SYS_ftruncate, fd, size);
    if (!failed) put('T', inode, size, NULL, NULL, 0);
    UNLOCK();
    return failed;
}

int ftruncate(int fd, off_t size) { return truncated(fd, size); }
int ftruncate64(int fd, off_t size) { return truncated(fd, size); }

static int synced(int fd)
{
    char path[PATH_MAX];
    struct stat found;
    if (!fd_below_home(fd, path) || fstat(fd, &found) != 0) return syscall(SYS_fsync, fd);
    LOCK();
    int failed = must_fail(SYNC) ? -1 : 0;
    KEEPING_ERRNO(put(failed ? 'F' : 'S', found.st_ino, S_ISDIR(found.st_mode), path, NULL, 0));
    UNLOCK();
    return failed;
}

int fsync(int fd) { return synced(fd); }
int fdatasync(int fd) { return synced(fd); }

void sync(void)
{
    if (!home_length) {
        syscall(SYS_sync);
        return;
    }
    LOCK();
    put('Y', 0, 0, NULL, NULL, 0);
    UNLOCK();
}

static int renamed(int from, const char *old, int to, const char *new, unsigned flags)
{
    char first[PATH_MAX], second[PATH_MAX];
    if (!below_home(from, old, first) | !below_home(to, new, second)) return syscall(SYS_renameat2, from, old, to, new, flags);
    LOCK();
    int failed = must_fail(RENAME) ? -1 : syscall(SYS_renameat2, from, old, to, new, flags);
    if (!failed) put('R', 0, 0, first, second, strlen(second));
    UNLOCK();
    return failed;
}

int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return renamed(from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) { return renamed(from, old, to, new, flags); }

static int linked(int from, const char *old, int to, const char *new, int flags)
{
    char first[PATH_MAX], second[PATH_MAX];
    if (!below_home(from, old, first) | !below_home(to, new, second)) return syscall(SYS_linkat, from, old, to, new, flags);
    LOCK();
    int failed = must_fail(RENAME) ? -1 : syscall(SYS_linkat, from, old, to, new, flags);
    if (!failed) put('L', 0, 0, first, second, strlen(second));
    UNLOCK();
    return failed;
}

int link(const char *old, const char *new) { return linked(AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int from, const char *old, int to, const char *new, int flags) { return linked(from, old, to, new, flags); }

static int removed(int folder, const char *path, int flags)
{
    char place[PATH_MAX];
    if (!below_home(folder, path, place)) return syscall(SYS_unlinkat, folder, path, flags);
    LOCK();
    int there = faccessat(folder, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int failed = there && must_fail(UNLINK) ? -1 : syscall(SYS_unlinkat, folder, path, flags);
    if (!failed) put('U', 0, 0, place, NULL, 0);
    UNLOCK();
    return failed;
}

int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }

static int folder_made(int folder, const char *path, mode_t mode)
{
    char place[PATH_MAX];
    if (!below_home(folder, path, place)) return syscall(SYS_mkdirat, folder, path, mode);
    LOCK();
    int failed = must_fail(MKDIR) ? -1 : syscall(SYS_mkdirat, folder, path, mode);
    if (!failed) put('D', 0, 0, place, NULL, 0);
    UNLOCK();
    return failed;
}

int mkdir(const char *path, mode_t mode) { return folder_made(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return folder_made(folder, path, mode); }
