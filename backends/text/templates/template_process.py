"""The helper process of `ChatTemplate`, run as `python -P -m` with this module's name.

A template is a program from a stranger's file. The sandbox keeps it from Python's insides, but not
from using all time and memory, and sandboxes have had holes: so it runs here, where there are no
secrets, no files can be opened, and the kernel bounds what one render may cost.
"""

from __future__ import annotations

import codecs
import importlib
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import msgspec

from ...base.framing import read_body
from .template_environment import (
    OutputTooLong,
    Template,
    TemplateRefusal,
    TemplateSyntaxError,
    compile_template,
    render_template,
)
from .template_protocol import (
    Awake,
    Compile,
    Compiled,
    Failed,
    FromHelper,
    Render,
    Rendered,
    ToHelper,
    pack,
)

if sys.platform != "win32":
    import resource

LONGEST_MESSAGE = 500
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    """Answer requests on stdin until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is meant for the parent
    _die_with_parent()
    _load_late_imports()
    decoder = msgspec.msgpack.Decoder[ToHelper](ToHelper)
    template: Template | None = None
    _send(Awake())
    while True:
        try:
            request: ToHelper = decoder.decode(read_body(sys.stdin.buffer))
        except EOFError:
            return
        match request:
            case Compile():
                _limit_everything(request.memory)
                outcome = _compile(request.source)
                template = outcome if isinstance(outcome, Template) else None
                _send(outcome if isinstance(outcome, Failed) else Compiled())
            case Render():
                if template is None:
                    raise RuntimeError("asked to render before a template was compiled")
                _limit_cpu(request.cpu_seconds)
                _send(_render(template, request))


def _send(answer: FromHelper) -> None:
    try:
        frame = pack(answer)
    except UnicodeEncodeError:
        frame = pack(Failed("error", "it wrote a lone surrogate, which is no text"))
    sys.stdout.buffer.write(frame)
    sys.stdout.buffer.flush()


def _compile(source: str) -> Template | Failed:
    try:
        return compile_template(source)
    except TemplateSyntaxError as error:
        return Failed("syntax", f"{error.message} (line {error.lineno})"[:LONGEST_MESSAGE])
    except Exception as error:
        return _failed(error)


def _render(template: Template, request: Render) -> Rendered | Failed:
    try:
        return Rendered(render_template(template, request.variables, request.characters))
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> Failed:
    match error:
        case TemplateRefusal():
            return Failed("refused", str(error)[:LONGEST_MESSAGE])
        case OutputTooLong():
            return Failed("output", "")
        case MemoryError():
            return Failed("memory", "")
        case RecursionError():
            return Failed("recursion", "")
        case _:
            return Failed("error", f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE])


def _load_late_imports() -> None:
    """What Python and Jinja would open on first use, when no file can be opened any more."""
    for name in ("jinja2.debug", "pprint", "unicodedata"):
        importlib.import_module(name)
    codecs.lookup("unicode_escape")  # string literals in templates
    time.localtime()  # the time zone


def _die_with_parent() -> None:
    """End when the parent does, even in the middle of a render.

    Linux sends the signal when the *thread* that started this process ends, so the handler looks
    whether the parent itself is gone. Elsewhere the CPU limit and the end of stdin do it.
    """
    if sys.platform != "linux":
        return
    import ctypes

    parent = os.getppid()

    def end_if_orphaned(_number: int, _frame: FrameType | None) -> None:
        if os.getppid() != parent:
            os._exit(0)

    signal.signal(signal.SIGTERM, end_if_orphaned)
    libc = ctypes.CDLL(None, use_errno=True)
    options = {PR_SET_PDEATHSIG: signal.SIGTERM, PR_SET_NO_NEW_PRIVS: 1, PR_SET_DUMPABLE: 0}
    for option, value in options.items():
        if libc.prctl(option, int(value), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _limit_everything(memory: int | None) -> None:
    """No files, no children, no core dumps, and `memory` bytes above what is mapped now."""
    if sys.platform == "win32":
        return
    if memory is not None:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NPROC, 0)
    _lower(resource.RLIMIT_NOFILE, 3)  # the standard streams, which are open already


def _lower(which: int, value: int) -> None:
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(which)
    if hard == resource.RLIM_INFINITY or hard > value:
        try:
            resource.setrlimit(which, (value, value))
        except (OSError, ValueError):
            # macOS refuses some of these; the parent's watch does not depend on them there.
            if sys.platform == "linux":
                raise


def _limit_cpu(seconds: int) -> None:
    """Let SIGXCPU end this process after so many CPU seconds from now, parent or no parent."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    # The kernel counts whole seconds, so one more keeps the promise.
    soft = int(time.process_time()) + seconds + 1
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    main()
