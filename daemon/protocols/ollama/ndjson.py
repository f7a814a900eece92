"""How Ollama's routes stream: JSON objects, one a line, of which an error may be the last."""

from __future__ import annotations

import msgspec

from ...error_status import describe
from ...errors import OllamaError
from ...http.sse_writer import NDJSON, StreamStyle

NDJSON_MEDIA = NDJSON.decode()


def error_line(error: Exception) -> bytes:
    """What a stream ends with that fails after it began."""
    return msgspec.json.encode(OllamaError.of(describe(error))) + b"\n"


LINES = StreamStyle(
    on_error=error_line, media_type=NDJSON, comment=b"", loading=lambda fraction: b""
)
"""Lines have no comments: while a model is loaded only the headers are there."""
