"""WebSocket frames that break the protocol, or carry what is no request: only they fail."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import ScriptedDaemon

HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
FIN, RSV = 0x80, 0x40
BODY = {"type": "response.create", "model": "echo:1", "input": "Hi"}


def frame(data: bytes, *, first: int = FIN | TEXT, length: int | None = None) -> bytes:
    """One masked frame; its mask is zero, so that the data is readable. `length` may be wrong."""
    size = len(data) if length is None else length
    if size < 126:
        head = struct.pack("!BB", first, FIN | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, FIN | 126, size)
    else:
        head = struct.pack("!BBQ", first, FIN | 127, size)
    return head + bytes(4) + data


def of_type(value: object) -> bytes:
    return frame(json.dumps(value).encode())


FRAMES = {
    "empty text": frame(b""),
    "invalid UTF-8": frame(b'{"type": "\xff\xfe"}'),
    "cut surrogate": frame(b'"\xed\xa0\x80"'),
    "no mask": b"\x81\x02{}",
    "reserved bit": frame(b"{}", first=FIN | RSV | TEXT),
    "reserved opcode": frame(b"{}", first=FIN | 3),
    "reserved control opcode": frame(b"", first=FIN | 11),
    "continuation of nothing": frame(b"{}", first=FIN),
    "text within text": frame(b"{", first=TEXT) + frame(b"}"),
    "unfinished text": frame(b'{"type":', first=TEXT),
    "fragments of one byte": b"".join(frame(b" ", first=0 if n else TEXT) for n in range(5000)),
    "fragmented ping": frame(b"a", first=PING),
    "long ping": frame(bytes(126), first=FIN | PING),
    "many pings": frame(b"a", first=FIN | PING) * 5000,
    "close of one byte": frame(b"\x03", first=FIN | CLOSE),
    "close of no code": frame(b"\x00\x00", first=FIN | CLOSE),
    "close with invalid UTF-8": frame(b"\x03\xe8\xff", first=FIN | CLOSE),
    "text after close": frame(b"\x03\xe8", first=FIN | CLOSE) + of_type(BODY),
    "negative length": struct.pack("!BBQ", FIN | TEXT, FIN | 127, 1 << 63) + bytes(4),
    "length of 1 TiB": frame(b"{", length=1 << 40),
    "length that is too short": frame(b'{"type": "response.create"}', length=3),
    "20 MB": frame(b'"' + b"a" * 20_000_000 + b'"'),
    "binary": frame(b'{"type": "response.destroy"}', first=FIN | BINARY),
    "binary zeros": frame(bytes(1000), first=FIN | BINARY),
    "deep": frame(b"[" * 100_000),
    "deep and closed": frame(b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    "half": frame(json.dumps(BODY).encode()[:20]),
    **{
        f"JSON of {value!r}": of_type(value)
        for value in (None, 0, True, [], {}, "x", [BODY], {"type": 1}, {"type": None})
    },
    **{
        f"wrong {name}": of_type({**BODY, name: json.loads(value)})
        for name, value in [
            ("type", '"response.destroy"'), ("model", "7"), ("model", '"\\u0000"'),
            ("input", '{"a": []}'), ("input", "[[[]]]"), ("tools", "1"),
            ("previous_response_id", '"../../keys"'), ("max_output_tokens", str(-(2**70))),
            ("metadata", '{"a": {"b": 1}}'),
        ]
    },
}  # fmt: skip


async def send(scripted: ScriptedDaemon, data: bytes, *, until: bytes | None = None) -> bytes:
    """Open a WebSocket, send the data, and return what comes until it ends or is silent.

    With `until` it waits for these bytes.
    """
    reader, writer = await asyncio.open_unix_connection(str(scripted.daemon.socket))
    try:
        writer.write(HANDSHAKE)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        received = b""
        with suppress(ConnectionError, TimeoutError):
            writer.write(data)
            await writer.drain()
            async with asyncio.timeout(20 if until else 0.2):
                while piece := await reader.read(1 << 16):
                    received += piece
                    if until is not None and until in received:
                        break
        return received
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def is_unharmed(scripted: ScriptedDaemon) -> None:
    """The daemon answers a request on a new WebSocket, and has no connection left over."""
    end = b"response.completed"
    assert end in await send(scripted, of_type(BODY), until=end)
    await scripted.daemon.until(lambda: not scripted.daemon.server.server_state.connections)


@pytest.mark.slow
async def test_hostile_frames_end_at_most_their_connection(
    scripted: ScriptedDaemon, tries: Callable[[int], None]
) -> None:
    for name, data in FRAMES.items():
        received = await send(scripted, data)
        assert b"response.completed" not in received, name
        assert b"internal_error" not in received, name
    await is_unharmed(scripted)
    tries(len(FRAMES))


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
async def test_random_frames_end_at_most_their_connection(
    scripted: ScriptedDaemon, tries: Callable[[int], None], count: int
) -> None:
    chance = random.Random(5)
    valid = of_type(BODY)
    for _ in range(count // 20):
        await asyncio.gather(*(send(scripted, _changed(valid, chance)) for _ in range(20)))
    await is_unharmed(scripted)
    tries(count)


def _changed(data: bytes, chance: random.Random) -> bytes:
    """The frame with a few bytes overwritten, cut or repeated, or random bytes."""
    if chance.random() < 0.2:
        return chance.randbytes(chance.randint(1, 200))
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed))
        changed[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 4))
        changed = changed or bytearray(b"\x81")
    return bytes(changed)
