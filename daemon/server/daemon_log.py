"""Log formatting: ids, sizes, times and error types, but no user content.

An exception is logged with its type and location, never with its message, which may quote a
request. Control characters are escaped, so that no name can forge a line or a terminal's control
sequence.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Literal, TextIO

import msgspec

from ..stores.log_files import LARGEST, new_log, rotate

LogFormat = Literal["text", "json"]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_QUOTED = re.compile(r"\b([A-Za-z_]\w*(?:Error|Exception|Interrupt))\(.*\)", re.DOTALL)
_LAST_LINE = re.compile(r"(?m)^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning|Exit)): .*$")
_LONGEST = 8000


def printable(text: str) -> str:
    """Return the text as one line, with control characters escaped as in Python."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def without_quotes(text: str) -> str:
    """Return the text without messages of exceptions: `KeyError('x')` and `KeyError: x` keep the
    type.

    Messages of native libraries, such as a failed assertion, stay.
    """
    return _LAST_LINE.sub(r"\1", _QUOTED.sub(r"\1(…)", text))


def trace(error: BaseException) -> str:
    """Return types and locations of an exception and its causes: "KeyError at a.py:1; from …"."""
    errors: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = traceback.extract_tb(current.__traceback__)
        places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        number = f" [errno {current.errno}]" if isinstance(current, OSError) else ""
        errors.append(f"{type(current).__qualname__}{number} at {' > '.join(places[-12:])}")
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return "; from ".join(errors)


class TextFormatter(logging.Formatter):
    """Formats a record as text: time, level, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        line = f"{moment},{record.msecs:03.0f} {record.levelname} {record.name}: "
        line += _message(record)
        if record.exc_info and record.exc_info[1] is not None:
            line += f" ({printable(trace(record.exc_info[1]))})"
        return line


class JSONFormatter(logging.Formatter):
    """Formats a record as a JSON object: `time` (UTC), `level`, `logger`, `message`, and maybe
    `error`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{moment}.{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = printable(trace(record.exc_info[1]))
        extra = getattr(record, "fields", None)
        if isinstance(extra, dict):
            fields |= extra
        return msgspec.json.encode(fields).decode()


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes to standard error, and rotates the log file if that is where it goes."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(sys.stderr)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        if self._path is not None and _is_full(self._path):
            self._begin_anew(self._path)
        super().emit(record)

    def _begin_anew(self, path: Path) -> None:
        """Rotate the log, and redirect both streams, stray prints included, to a new file."""
        try:
            rotate(path)
            fd = new_log(path)
        except OSError:
            self._path = None  # the old file stays in use
            return
        for stream in (1, 2):
            os.dup2(fd, stream)
        os.close(fd)


def configure_logging(level: str, form: LogFormat = "text", path: Path | None = None) -> None:
    """Send all logging to standard error, which may be the file `path`."""
    handler = LogHandler(path)
    handler.setFormatter(JSONFormatter() if form == "json" else TextFormatter())
    chosen = logging.getLevelNamesMapping()[level.upper()]
    for name in ("", "ingle", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(chosen if name == "ingle" else max(logging.WARNING, chosen))
    threading.excepthook = _thread_failed


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    """Log a thread's exception; Python's own hook would print its message, too."""
    if failure.exc_value is not None:
        name = failure.thread.name if failure.thread is not None else "?"
        logging.getLogger("ingle").error("Thread %s failed", name, exc_info=failure.exc_value)


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters)"
    return printable(without_quotes(text))


def _is_full(path: Path) -> bool:
    """Whether standard error is the log file, and it is too large."""
    try:
        ours, log = os.fstat(2), path.stat()
    except OSError:
        return False
    return (ours.st_dev, ours.st_ino) == (log.st_dev, log.st_ino) and log.st_size > LARGEST
