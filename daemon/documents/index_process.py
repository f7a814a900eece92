"""The process that indexes one folder, run as `python -P -m`: it reads only that folder.

It writes only the folder of its index, has no network and little memory.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import msgspec

from ingle.backends.base.child_process import die_with_parent
from ingle.backends.base.framing import frame, read_body
from ingle.backends.confinement.access_policy import AccessPolicy
from ingle.backends.confinement.confine import confine
from ingle.backends.confinement.resource_limits import lower_limit

from .index_protocol import IndexFailure, IndexMessage, IndexReply, OpenFolder, ReadMore

_ADDRESS_SPACE = 4 * 2**30
_NICENESS = 10
_OURS = Path(__file__).parents[1]
"""The folder of modules that are imported after confinement."""


def main() -> None:
    """Answer messages on stdin until it closes; the first names the folder."""
    die_with_parent(int(sys.argv[1]))
    sink: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    opened = msgspec.msgpack.decode(read_body(sys.stdin.buffer), type=OpenFolder)
    folder, path = Path(opened.folder), Path(opened.index)
    confine(AccessPolicy(reads=(folder, _OURS)).with_folder(path.parent))
    if sys.platform == "linux":
        import resource

        lower_limit(resource.RLIMIT_AS, _ADDRESS_SPACE)
    # Imported here, after confinement, since libraries may start threads.
    from .folder_indexer import FolderIndexer

    decoder = msgspec.msgpack.Decoder(IndexMessage)
    indexer = FolderIndexer(folder, path)
    reply: IndexReply = indexer.answer(ReadMore())
    while True:
        sink.write(frame(msgspec.msgpack.encode(reply)))
        sink.flush()
        try:
            message = decoder.decode(read_body(sys.stdin.buffer))
        except EOFError:
            return
        try:
            reply = indexer.answer(message)
        except sqlite3.OperationalError as error:  # a full disk
            indexer.reopen(anew=False)
            reply = IndexFailure(str(error))
        except sqlite3.DatabaseError:
            indexer.reopen(anew=True)
            reply = IndexFailure("the index was damaged, and is made anew")


if __name__ == "__main__":
    main()
