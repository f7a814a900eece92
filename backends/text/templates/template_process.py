"""The helper process of `ChatTemplate`, run as `python -P -m`.

A template is a program from an untrusted file. The sandbox keeps it from Python's internals, but
not from using all time and memory, and sandboxes have had holes. So it runs in a process without
secrets or file access, whose resources the kernel bounds.
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
from ...confinement.resource_limits import lower_limit
from .template_environment import (
    OutputTooLong,
    Template,
    TemplateRefusal,
    TemplateSyntaxError,
    compile_template,
    render_template,
)
from .template_protocol import (
    Compile,
    FromHelper,
    HelperReady,
    Rendered,
    RenderFailed,
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
    """Answer requests on stdin until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the parent
    _die_with_parent()
    _load_late_imports()
    decoder = msgspec.msgpack.Decoder[ToHelper](ToHelper)
    template: Template | None = None
    _send(HelperReady())
    while True:
        try:
            request: ToHelper = decoder.decode(read_body(sys.stdin.buffer))
        except EOFError:
            return
        if isinstance(request, Compile):
            _limit_everything(request.memory)
        else:
            _limit_cpu(request.cpu_seconds)
        try:
            if isinstance(request, Compile):
                template, answer = compile_template(request.source), HelperReady()
            else:
                assert template is not None, "asked to render before a template was compiled"
                text = render_template(template, request.variables, request.characters)
                answer = Rendered(text)
        except Exception as error:
            answer = _failed(error)
        _send(answer)


def _send(answer: FromHelper) -> None:
    try:
        frame = pack(answer)
    except UnicodeEncodeError:
        frame = pack(RenderFailed("error", "it wrote a lone surrogate, which is no text"))
    sys.stdout.buffer.write(frame)
    sys.stdout.buffer.flush()


def _failed(error: Exception) -> RenderFailed:
    match error:
        case TemplateRefusal():
            return RenderFailed("refused", str(error)[:LONGEST_MESSAGE])
        case OutputTooLong():
            return RenderFailed("output", "")
        case MemoryError():
            return RenderFailed("memory", "")
        case RecursionError():
            return RenderFailed("recursion", "")
        case TemplateSyntaxError():
            said = f"{error.message} (line {error.lineno})"
            return RenderFailed("syntax", said[:LONGEST_MESSAGE])
        case _:
            return RenderFailed("error", f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE])


def _load_late_imports() -> None:
    """Load modules and data that Python and Jinja open on first use, before files are forbidden."""
    for name in ("jinja2.debug", "pprint", "unicodedata"):
        importlib.import_module(name)
    codecs.lookup("unicode_escape")  # string literals in templates
    time.localtime()  # the time zone


def _die_with_parent() -> None:
    """End with the parent, even during a render.

    Linux sends the signal when the *thread* that started this process ends, so the handler checks
    whether the parent itself is gone. Elsewhere the CPU limit and the end of stdin end it.
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
    """Forbid files, children and core dumps, and limit memory to `memory` bytes above the
    present.
    """
    if sys.platform == "win32":
        return
    if memory is not None:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
        lower_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory)
    lower_limit(resource.RLIMIT_FSIZE, 0)
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_NPROC, 0)
    lower_limit(resource.RLIMIT_NOFILE, 3)  # the standard streams, which are already open


def _limit_cpu(seconds: int) -> None:
    """End this process by SIGXCPU after `seconds` more CPU seconds."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    # The kernel counts whole seconds, hence one more.
    soft = int(time.process_time()) + seconds + 1
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


if __name__ == "__main__":
    main()
