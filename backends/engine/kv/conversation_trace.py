"""Which conversations ran through something in the KV cache, the last ones only."""

from __future__ import annotations

MOST = 8
"""Conversations that are remembered of one page."""

Trace = tuple[str, ...]
"""Labels of conversations, those that came last first."""


def remember(trace: Trace, conversation: str) -> Trace:
    """The trace once this conversation has come through, too."""
    if trace and trace[0] == conversation:
        return trace
    return joined((conversation,), trace)


def joined(later: Trace, earlier: Trace) -> Trace:
    """Both in one."""
    return tuple(dict.fromkeys((*later, *earlier)))[:MOST]
