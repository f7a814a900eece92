"""Base class of the answers of the native API."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """JSON that the daemon sends; it always contains every field.

    A default is what a client reads from a daemon of another version that lacks the field.
    """
