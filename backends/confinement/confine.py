"""Puts the process that it is called in where a stranger's file can do least."""

from __future__ import annotations

import sys

from .access_policy import AccessPolicy
from .landlock_rules import FileRules, restrict_files
from .resource_limits import limit_process, sane_address_space
from .seccomp_filter import forbid_network
from .system_files import SINK, all_but_homes, interpreter_files, library_files


def confine(workplace: AccessPolicy) -> None:
    """Take from this process what its work does not need, as far as the system has means.

    On Linux that is the network, other processes, files that are none of its own, core dumps, and
    more memory than there is; elsewhere some of the limits only. For good, and for its children,
    too. To be called before there are other threads.
    """
    bytes_mapped = None if workplace.drives_gpu else workplace.mapped_bytes()
    limit_process(address_space=None if bytes_mapped is None else sane_address_space(bytes_mapped))
    if sys.platform != "linux":
        return
    rules = file_rules(workplace)
    if rules is None or not restrict_files(rules):
        print("This kernel has no Landlock: files are as open as to the user.", file=sys.stderr)
    if not forbid_network(local_sockets=workplace.drives_gpu):
        print("This kernel filters no system calls: the network is open.", file=sys.stderr)


def file_rules(workplace: AccessPolicy) -> FileRules | None:
    """Which files stay; None where nothing can be told apart."""
    if workplace.drives_gpu:
        outside = all_but_homes()
        if outside is None:
            return None
        reads = (*outside, *library_files(), *workplace.reads, *workplace.writes)
        return FileRules(reads, workplace.lists, writes=None, executes=None)
    return FileRules(
        (*library_files(), *workplace.reads),
        workplace.lists,
        writes=(*workplace.writes, SINK),
        executes=interpreter_files(),
    )
