"""The `error` event that ends a stream of the native API."""

from __future__ import annotations

import msgspec

from ...error_status import describe
from ...http.sse_writer import encode_event


def error_frame(error: Exception) -> bytes:
    """The server-sent event that reports `error`."""
    return encode_event(msgspec.json.encode(describe(error).native()), event="error")
