"""Route declarations under `/ingle/v1/`: their error format, also in streams."""

from __future__ import annotations

from functools import partial

from ...http.bodies import NATIVE
from ...http.route_spec import route
from ...http.sse_writer import StreamStyle

native_route = partial(route, error_format=NATIVE)


NATIVE_STREAM = StreamStyle(on_error=NATIVE.frame)
