"""Guarded programs: what a command asks for, and what left meanwhile."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from .answer import Answer

UpstreamName = Annotated[str, Meta(pattern="^[a-z]{1,20}$")]


class GuardRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of a program's own provider by name, such as `anthropic`.

    `strict`: what the policy never lets out is not masked either, but stays here. `local` is the
    model that answers what stays here; without one it is refused. The guard ends with the process
    `pid`, if one is named.
    """

    upstreams: Annotated[dict[UpstreamName, str], Meta(min_length=1, max_length=8)]
    strict: bool = False
    local: Annotated[str, Meta(max_length=4096)] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class GuardStarted(Answer, frozen=True, kw_only=True):
    """The secret `path` that stands for all servers: `PATH/anthropic` is the one of this name."""

    path: str


class GuardSummary(Answer, frozen=True, kw_only=True):
    """The requests of one guarded program: how many left, how many of those with placeholders for
    values of the `masked` kinds, how many were refused or answered here, and the bytes sent.

    `reasons` are those of the latest refusals.
    """

    sent: int
    redacted: int
    refused: int
    answered_here: int
    bytes_out: int
    masked: dict[str, int]
    reasons: list[str]
