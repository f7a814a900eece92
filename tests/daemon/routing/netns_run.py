"""Run a real daemon and a provider in a network namespace, send canaries, and capture all packets.

`python -P -m tests.daemon.routing.netns_run HOME MODEL CANARIES HARMLESS` prints JSON: the packets
and bytes that went to the provider in each of two rounds, and the ledger's totals.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import struct
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from tests.daemon.routing.canaries import HARMLESS, canaries
from tests.daemon.routing.conftest import Sink

CONCURRENCY = 8
PROSE = ("This is confidential", "I was diagnosed")
SCRIPTED = "scripted"
"""A daemon with a scripted model, for thousands of prompts."""
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_ETH_P_ALL, _PACKET_OUTGOING = 3, 4


class Sniffer(threading.Thread):
    """Counts packets to one TCP port on any interface, and their bytes."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.packets = 0
        self.bytes = 0
        self.content = bytearray()
        self.others: Counter[int] = Counter()
        self._port = port
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 2**20)
        self._socket.settimeout(0.2)
        self._ends = threading.Event()

    def run(self) -> None:
        while not self._ends.is_set():
            try:
                packet, (_, _, kind, _, _) = self._socket.recvfrom(70_000)
            except TimeoutError:
                continue
            if kind == _PACKET_OUTGOING:  # loopback shows each packet twice: outgoing and incoming
                self._take(packet[14:])

    def end(self) -> None:
        self._ends.set()
        self.join()
        self._socket.close()

    def _take(self, ip: bytes) -> None:
        if ip[0] >> 4 != 4 or ip[9] != socket.IPPROTO_TCP:
            self.others[ip[9]] += 1
            return
        header = 4 * (ip[0] & 15)
        (length,) = struct.unpack_from("!H", ip, 2)
        source, target = struct.unpack_from("!HH", ip, header)
        if target == self._port:
            payload = ip[header + 4 * (ip[header + 12] >> 4) : length]
            self.packets += 1
            self.bytes += len(payload)
            self.content += payload
        elif source != self._port:
            self.others[target] += 1


def bodies(text: str) -> list[tuple[str, dict[str, Any]]]:
    """A request of each protocol; what prose says is not read where programs write."""
    chat = [{"role": "user", "content": text}]
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", {"messages": chat, "max_tokens": 1}),
        ("/v1/chat/completions", {"messages": chat, "max_tokens": 1, "stream": True}),
        ("/v1/responses", {"input": text, "max_output_tokens": 1}),
        ("/v1/messages", {"messages": chat, "max_tokens": 1}),
        ("/api/chat", {"messages": chat, "options": {"num_predict": 1}, "stream": False}),
        ("/api/generate", {"prompt": text, "options": {"num_predict": 1}, "stream": False}),
        ("/v1/completions", {"prompt": text, "max_tokens": 1}),
        ("/completion", {"prompt": text, "n_predict": 1}),
        ("/api/v0/chat/completions", {"messages": chat, "max_tokens": 1}),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "system", "content": text}, {"role": "user", "content": "Hi"}],
             "max_tokens": 1},
        ),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 1,
             "tools": [{"type": "function", "function": {"name": "f", "description": text}}]},
        ),
    ]  # fmt: skip
    return ways[:-2] if any(prose in text for prose in PROSE) else ways


async def send(client: httpx.AsyncClient, prompts: list[tuple[int, str]]) -> Counter[str]:
    """Send all prompts concurrently, each by the next protocol; returns counts of the routes."""
    ways: Counter[str] = Counter()
    queue = iter(prompts)

    async def work() -> None:
        for number, text in queue:
            every = bodies(text)
            path, body = every[number % len(every)]
            answer = await client.post(path, json={"model": "auto", **body})
            # Some exceed the context of the scripted model, which only the local model reports.
            if answer.status_code not in (200, 400):
                raise AssertionError(f"{path}: {answer.status_code} {answer.text[:300]}")
            ways[answer.headers["ingle-route"].partition(";")[0]] += 1

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return ways


def bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP))


async def main(home: Path, model: str, count: int, harmless: int) -> dict[str, Any]:
    bring_loopback_up()
    sink = Sink()
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0)
    sink.port = server.sockets[0].getsockname()[1]
    sniffer = Sniffer(sink.port)
    sniffer.start()
    config = home / "config"
    config.mkdir(parents=True)
    (config / "providers.toml").write_text(
        f'[sink]\nkind = "openai"\nbase_url = "http://127.0.0.1:{sink.port}/v1"\n'
        'models = ["big"]\nown = true\nretries = 0\n'
    )
    (config / "providers.toml").chmod(0o600)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("INGLE_")} | {
        "INGLE_HOME": str(home),
        "INGLE_PORT": "0",
        **({} if model == SCRIPTED else {"INGLE_DEFAULT_MODEL": model}),
        "INGLE_IMPORT_MODELS": "false",
    }
    command = [sys.executable, "-P", "-m", "ingle.daemon.main", "serve"]
    if model == SCRIPTED:
        command = [sys.executable, "-m", "tests.daemon.routing.scripted_serve"]
    with (home / "log").open("wb") as log:
        daemon = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=log, stderr=log
        )
    try:
        return await _rounds(home, sink, sniffer, count, harmless)
    finally:
        daemon.terminate()
        await daemon.wait()
        sniffer.end()


async def _rounds(
    home: Path, sink: Sink, sniffer: Sniffer, count: int, harmless: int
) -> dict[str, Any]:
    from ingle.daemon.settings.paths import find_paths

    path = find_paths({"INGLE_HOME": str(home)}).socket
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.05)
    marked = list(canaries(count))
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(
        base_url="http://localhost", transport=transport, timeout=300
    ) as client:
        ways = await send(client, list(enumerate(text for _, text in marked)))
        first = {
            "ways": dict(ways),
            "connections": sink.connections,
            "packets": sniffer.packets,
            "bytes": sniffer.bytes,
        }
        mixed = [
            text
            for number in range(harmless)
            for text in (f"{HARMLESS[number % len(HARMLESS)]}", marked[number % count][1])
        ]
        ways = await send(client, list(enumerate(mixed)))
        async with asyncio.timeout(30):  # receipts are written after the answer
            while True:
                totals = (await client.get("/ingle/v1/ledger/totals")).json()
                if totals["bytes_out"] >= len(sink.received):
                    break
                await asyncio.sleep(0.1)
        verified = (await client.get("/ingle/v1/ledger/verify")).json()
    async with asyncio.timeout(10):
        while sniffer.bytes < len(sink.received):
            await asyncio.sleep(0.05)
    received = bytes(sink.received)
    return {
        "local": first,
        "mixed": {
            "ways": dict(ways),
            "sink": len(received),
            "wire": sniffer.bytes,
            "same": bytes(sniffer.content) == received
            or sorted(sniffer.content) == sorted(received),
            "ledger": totals["bytes_out"],
            "requests": totals["requests"],
            "connections": sink.connections,
            "verified": verified,
            "leaked": [mark for mark, _ in marked if mark.encode() in received],
        },
        "others": {str(port): n for port, n in sniffer.others.items()},
    }


if __name__ == "__main__":
    arguments = sys.argv[1:]
    result = asyncio.run(
        main(Path(arguments[0]), arguments[1], int(arguments[2]), int(arguments[3]))
    )
    print(json.dumps(result))
