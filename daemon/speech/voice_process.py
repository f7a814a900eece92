"""The process that turns text into sound, run as `python -P -m`.

It has neither network nor files other than its packages, nor much memory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from ingle.backends.base.child_process import die_with_parent
from ingle.backends.base.framing import frame, read_body
from ingle.backends.confinement.access_policy import AccessPolicy
from ingle.backends.confinement.confine import confine
from ingle.backends.confinement.resource_limits import lower_limit

from .voice_protocol import VoiceMessage

_ADDRESS_SPACE = 4 * 2**30
_OURS = Path(__file__).parents[1]
"""The folder of modules that are imported after confinement."""


def main() -> None:
    """Answer messages on stdin until it closes."""
    die_with_parent(int(sys.argv[1]))
    sink: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    confine(AccessPolicy(reads=(_OURS,)))
    if sys.platform == "linux":
        import resource

        lower_limit(resource.RLIMIT_AS, _ADDRESS_SPACE)
    # Imported here, after confinement, since libraries start threads.
    from .voice import Voice

    voice = Voice()
    decoder = msgspec.msgpack.Decoder(VoiceMessage)
    while True:
        try:
            body = read_body(sys.stdin.buffer)
        except EOFError:
            return
        sink.write(frame(msgspec.msgpack.encode(voice.answer(decoder.decode(body)))))
        sink.flush()


if __name__ == "__main__":
    main()
