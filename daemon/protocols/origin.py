"""For whom a request is answered."""

from __future__ import annotations

from dataclasses import dataclass

from ingle.backends.base import Priority


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What is known of a request beside its body; `priority` counts before what the body says.

    Clients of one name share what is theirs; what is `private` is never written to disk.
    """

    client: str = ""
    private: bool = False
    priority: Priority | None = None
