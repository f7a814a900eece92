"""Numbers of system calls: what a worker without a GPU may call, and what one with a GPU may not.

Sources: asm/unistd_64.h and asm-generic/unistd.h; traces of workers with each engine.
"""

from __future__ import annotations

from collections.abc import Mapping

Numbers = tuple[int | None, int | None]
"""The number on x86-64 and on AArch64; None where the call does not exist."""


def _table(text: str) -> Mapping[str, Numbers]:
    """Read entries `name x86-64 AArch64`, separated by commas; lines with # are comments."""
    lines = (line for line in text.splitlines() if "#" not in line)
    entries = (entry.split() for line in lines for entry in line.split(",") if entry.strip())
    return {
        name: (None if x86 == "-" else int(x86), None if arm == "-" else int(arm))
        for name, x86, arm in entries
    }


CHECKED: Mapping[str, Numbers] = _table(
    """
    ioctl 16 29, fcntl 72 25, prctl 157 167, clone 56 220, clone3 435 435, kill 62 129,
    tgkill 234 131, prlimit64 302 261, sched_setaffinity 203 122, sched_setscheduler 144 119,
    sched_setparam 142 118, sched_setattr 314 274, setpriority 141 140, ioprio_set 251 30,
    utimensat 280 88, socket 41 198, connect 42 203, sendto 44 206
    """
)
"""Calls that are decided by their arguments, or whose failure needs a certain error."""
ALLOWED: Mapping[str, Numbers] = _table(
    """
    # Files. The file rules decide which.
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69,
    pwritev 296 70, preadv2 327 286, pwritev2 328 287, lseek 8 62, open 2 -, openat 257 56,
    openat2 437 437, creat 85 -, close 3 57, close_range 436 436, stat 4 -, lstat 6 -, fstat 5 80,
    newfstatat 262 79, statx 332 291, statfs 137 43, fstatfs 138 44, access 21 -, faccessat 269 48,
    faccessat2 439 439, readlink 89 -, readlinkat 267 78, getdents 78 -, getdents64 217 61,
    getcwd 79 17, chdir 80 49, fchdir 81 50, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -,
    unlinkat 263 35, rename 82 -, renameat 264 38, renameat2 316 276, truncate 76 45,
    ftruncate 77 46, fallocate 285 47, fsync 74 82, fdatasync 75 83, sync_file_range 277 84,
    fadvise64 221 223, readahead 187 213, copy_file_range 326 285, sendfile 40 71, splice 275 76,
    flock 73 32, umask 95 166, dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -,
    pipe2 293 59
    # Waiting.
    poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -, epoll_create1 291 20,
    epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441, eventfd 284 -,
    eventfd2 290 19, timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87,
    signalfd 282 -, signalfd4 289 74
    # Memory.
    mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233, brk 12 214,
    msync 26 227, mincore 27 232, mlock 149 228, mlock2 325 284, munlock 150 229, mlockall 151 230,
    munlockall 152 231, membarrier 324 283, mbind 237 235, set_mempolicy 238 237,
    get_mempolicy 239 236, pkey_mprotect 329 288, pkey_alloc 330 289, pkey_free 331 290
    # Threads and children.
    fork 57 -, vfork 58 -, execve 59 221, exit 60 93, exit_group 231 94, wait4 61 260,
    waitid 247 95, futex 202 98, futex_waitv 449 449, set_robust_list 273 99,
    get_robust_list 274 100, set_tid_address 218 96, rseq 334 293, arch_prctl 158 -, getcpu 309 168,
    sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121,
    sched_getscheduler 145 120, sched_getattr 315 275, sched_get_priority_max 146 125,
    sched_get_priority_min 147 126, sched_rr_get_interval 148 127, getpriority 140 141,
    ioprio_get 252 31
    # The process itself.
    getpid 39 172, getppid 110 173, gettid 186 178, getpgid 121 155, getpgrp 111 -, getsid 124 156,
    getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getgroups 115 158,
    getresuid 118 148, getresgid 120 150, getrlimit 97 163, setrlimit 160 164, getrusage 98 165,
    times 100 153, sysinfo 99 179, uname 63 160, capget 125 90, seccomp 317 277,
    landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446,
    getrandom 318 278
    # Signals and time.
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
    rt_sigsuspend 130 133, rt_sigtimedwait 128 137, sigaltstack 131 132, restart_syscall 219 128,
    pause 34 -, alarm 37 -, getitimer 36 102, setitimer 38 103, clock_gettime 228 113,
    clock_getres 229 114, clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169,
    time 201 -, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108,
    timer_getoverrun 225 109, timer_delete 226 111
    """
)
"""All that a worker without a GPU may call, besides `CHECKED`."""
OF_CONNECTIONS: Mapping[str, Numbers] = _table("recvfrom 45 207")
"""What a worker without a GPU may also call if it has connections; it makes no others."""
DENIED: Mapping[str, Numbers] = _table(
    """
    # Other ends of sockets. Those made through io_uring bypass seccomp.
    accept 43 202, accept4 288 242, sendmsg 46 211, sendmmsg 307 269,
    io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427
    # Other processes of the same user.
    ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440,
    process_mrelease 448 448, pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424,
    kcmp 312 272, tkill 200 130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240
    # Owners, modes, times and attributes of files, which the file rules do not cover.
    chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55,
    lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, setxattr 188 5,
    lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, removexattr 197 14, lremovexattr 198 15,
    fremovexattr 199 16, removexattrat 466 466, file_setattr 469 469
    # Kernel subsystems with a history of vulnerabilities, not needed by a model.
    bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, add_key 248 217, request_key 249 218,
    keyctl 250 219, unshare 272 97, setns 308 268, mount 165 40, umount2 166 39, pivot_root 155 41,
    chroot 161 51, open_tree 428 428, open_tree_attr 467 467, move_mount 429 429, fsopen 430 430,
    fspick 433 433, fsconfig 431 431, fsmount 432 432, mount_setattr 442 442,
    open_by_handle_at 304 265, fanotify_init 300 262, fanotify_mark 301 263
    # Reserved to root, for a daemon that runs as root.
    kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273,
    delete_module 176 106, swapon 167 224, swapoff 168 225, reboot 169 142, sethostname 170 161,
    setdomainname 171 162, settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266,
    adjtimex 159 171, acct 163 89, quotactl 179 60, syslog 103 116, iopl 172 -, ioperm 173 -,
    mknod 133 -, mknodat 259 33, vhangup 153 58
    """
)
"""What a worker with a GPU may not call: what drivers call is not all known."""
ATTRIBUTES = frozenset(
    (
        *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
        *("utime", "utimes", "futimesat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
        *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    )
)
"""Calls of `DENIED` that change only attributes of files, which many programs cannot do without."""
