"""Base of the APIs under `/ingle/v1/`: its error format, also in streams."""

from __future__ import annotations

from functools import partial

import msgspec

from ...error_status import describe
from ...http.json_response import NATIVE
from ...http.route_spec import route
from ...http.sse_writer import StreamStyle, encode_event
from ...services import Services

native_route = partial(route, error_format=NATIVE)


def error_frame(error: Exception) -> bytes:
    """Return the `error` event that ends a stream."""
    return encode_event(msgspec.json.encode(describe(error).native()), event="error")


NATIVE_STREAM = StreamStyle(on_error=error_frame)


class NativeApi:
    """Routes that use the services of the daemon."""

    def __init__(self, services: Services) -> None:
        self._services = services
