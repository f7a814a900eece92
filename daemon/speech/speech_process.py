"""The process that recognises speech with one model, run as `python -P -m`.

Native code reads untrusted audio there, without network, files of the user and much memory.
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
from ingle.models.whisper_files import FILES

from .speech_protocol import OpenSpeechModel, SpeechMessage, SpeechReply

_ADDRESS_SPACE = 8 * 2**30
"""Beside the model: an hour of audio takes most of it."""
_OURS = Path(__file__).parents[1]
"""The folder of modules that are imported after confinement."""


def main() -> None:
    """Answer messages on stdin until it closes; the first names the model."""
    die_with_parent(int(sys.argv[1]))
    sink: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    body = read_body(sys.stdin.buffer)
    opened = msgspec.msgpack.decode(body, type=OpenSpeechModel)
    files = [path for name in FILES if (path := Path(opened.folder, name).resolve()).exists()]
    confine(AccessPolicy(reads=(Path(opened.folder).resolve(), *files, _OURS)))
    if sys.platform == "linux":
        import resource

        size = sum(path.stat().st_size for path in files)
        lower_limit(resource.RLIMIT_AS, _ADDRESS_SPACE + 4 * size)  # 16 bits are loaded as 32
    # Imported here, after confinement, since libraries start threads.
    from .recogniser import Recogniser

    recogniser = Recogniser()
    decoder = msgspec.msgpack.Decoder(SpeechMessage)
    while True:
        reply: SpeechReply = recogniser.answer(decoder.decode(body))
        sink.write(frame(msgspec.msgpack.encode(reply)))
        sink.flush()
        try:
            body = read_body(sys.stdin.buffer)
        except EOFError:
            return


if __name__ == "__main__":
    main()
