"""Base of the APIs under `/ingle/v1/`: its error format, also in streams."""

from __future__ import annotations

from functools import partial

from ...http.bodies import NATIVE
from ...http.route_spec import route
from ...http.sse_writer import StreamStyle
from ...services import Services

native_route = partial(route, error_format=NATIVE)


NATIVE_STREAM = StreamStyle(on_error=NATIVE.frame)


class NativeApi:
    """Routes that use the services of the daemon."""

    def __init__(self, services: Services) -> None:
        self._services = services
