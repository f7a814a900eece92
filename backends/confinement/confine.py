"""Applies the sandbox to the current process."""

from __future__ import annotations

import sys

from .access_policy import AccessPolicy
from .landlock_rules import FileRules, restrict_files
from .resource_limits import limit_process, sane_address_space
from .seccomp_filter import forbid_network
from .system_files import SINK, all_but_homes, interpreter_files, library_files


def confine(policy: AccessPolicy) -> None:
    """Take away the rights that this process does not need, as far as the system supports it.

    On Linux: network, other processes, other files, core dumps, and memory beyond the machine's;
    elsewhere only some resource limits. Permanent, and inherited by children. Call it before
    threads start.
    """
    bytes_mapped = None if policy.drives_gpu else policy.mapped_bytes()
    limit_process(address_space=None if bytes_mapped is None else sane_address_space(bytes_mapped))
    if sys.platform != "linux":
        return
    rules = file_rules(policy)
    if rules is None or not restrict_files(rules):
        print("This kernel has no Landlock: files are as open as to the user.", file=sys.stderr)
    if not forbid_network(local_sockets=policy.drives_gpu):
        print("This kernel filters no system calls: the network is open.", file=sys.stderr)


def file_rules(policy: AccessPolicy) -> FileRules | None:
    """Return the file rules, None if file access cannot be restricted usefully."""
    if policy.drives_gpu:
        outside = all_but_homes()
        if outside is None:
            return None
        reads = (*outside, *library_files(), *policy.reads, *policy.writes)
        return FileRules(reads, policy.lists, writes=None, executes=None)
    return FileRules(
        (*library_files(), *policy.reads),
        policy.lists,
        writes=(*policy.writes, SINK),
        executes=interpreter_files(),
    )
