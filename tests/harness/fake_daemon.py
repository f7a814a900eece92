"""A scripted daemon that serves the native API over a real unix socket."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import h11
import msgspec

if TYPE_CHECKING:
    from .real_routing import RealRouting

Json = dict[str, Any]


def model_entry(name: str = "smollm2:135m", **changes: object) -> Json:
    """Return one entry of `GET /ingle/v1/models`."""
    entry: Json = {
        "name": name,
        "installed": True,
        "state": "stopped",
        "default": name == "smollm2:135m",
        "size": 98362432,
        "parameters": 134515008,
        "quantization": "Q4_1",
        "architecture": "llama",
        "context": 8192,
        "licence": "Apache-2.0",
        "description": "SmolLM2 135M Instruct",
        "path": "/models/SmolLM2-135M-Instruct.Q4_1.gguf",
        "chat": True,
        "task": "generate",
    }
    return entry | changes


def page_map(**changes: object) -> Json:
    """Return a `pages` event with a shared prefix, a running chat, a kept chat and free pages."""
    event: Json = {
        "model": "smollm2:135m",
        "page_tokens": 32,
        "pages": 256,
        "groups": [
            {"conversations": ["chat-1", "chat-2"], "running": True, "tokens": 128},
            {"conversations": ["chat-1"], "running": True, "tokens": 690},
            {"conversations": ["chat-2"], "running": False, "tokens": 300, "idle_seconds": 12.5},
        ],
        "runs": [[0, 4], [1, 22], [2, 10], [-1, 220]],
        "memory_tokens": 0,
        "disk_tokens": 2048,
        "evicted_pages_total": 0,
    }
    return event | changes


@dataclass
class Answer:
    """The script of a generation: texts, and a gate before those that wait for a test."""

    texts: list[str] = field(default_factory=lambda: ["Hello ", "there."])
    thoughts: list[str] = field(default_factory=list[str])
    prefilled: int = 0
    """Tokens of the prompt after which its prefill is reported."""
    gate_before: int | None = None
    drop_after: int | None = None
    error: Json | None = None
    error_after: int = 0
    refuse: tuple[int, Json] | None = None
    reply_lost: bool = False
    calls: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Names and arguments of the tool calls that end it."""


class Request:
    """One received request, and the means to answer it."""

    def __init__(
        self, event: h11.Request, body: bytes, machine: h11.Connection, writer: asyncio.StreamWriter
    ) -> None:
        self.method = event.method.decode()
        self.target = event.target.decode()
        self.headers = {name.decode(): value.decode() for name, value in event.headers}
        self.raw = body
        is_form = self.headers.get("content-type", "").startswith("multipart/")
        self.body: Json = json.loads(body) if body and not is_form else {}
        self._machine = machine
        self._writer = writer

    async def send(self, event: h11.Event) -> None:
        data = self._machine.send(event)  # pyright: ignore[reportCallIssue, reportArgumentType]
        self._writer.write(data or b"")
        await self._writer.drain()

    async def answer(self, body: Json, status: int = 200) -> None:
        content = json.dumps(body).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        await self.send(h11.Response(status_code=status, headers=headers))
        await self.send(h11.Data(data=content))
        await self.send(h11.EndOfMessage())

    async def start_stream(self) -> None:
        headers = [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]
        await self.send(h11.Response(status_code=200, headers=headers))

    async def event(self, name: str, data: Json, number: int | None = None) -> None:
        head = "" if number is None else f"id: {number}\n"
        text = f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"
        await self.send(h11.Data(data=text.encode()))

    async def end(self) -> None:
        await self.send(h11.EndOfMessage())


@dataclass
class FakeGeneration:
    """A generation that the fake daemon owns."""

    answer: Answer
    events: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: bool = False
    done: bool = False

    def push(self, name: str, data: Json) -> None:
        self.events.append((name, data))
        self.done = name in ("finished", "error")
        self.changed.set()


class FakeDaemon:
    """Serves the native API and keeps all requests for the tests."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.models: list[Json] = [model_entry()]
        self.context = 8192
        self.prompt_tokens = 20
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self.prompts: list[list[Json]] = []
        self.generations: dict[str, FakeGeneration] = {}
        self.gate = asyncio.Event()
        self.pull_gate = asyncio.Event()
        self.pull_error: Json | None = None
        self.pull_done: list[str] = []
        self.pages = page_map()
        self.pulls: list[Json] = []
        self.engines: list[Json] = []
        self.engines_gate = asyncio.Event()
        self.engines_gate.set()
        self.engine_offer: Json | None = None
        self.installation: Json = {}
        self.status: Json | None = None
        self.doctor: Json = {"findings": [], "fine": []}
        self.routing: Json = {"enabled": False, "providers": [], "routes": []}
        self.explanation: Json | None = {"verdict": "cloud", "goes_to": "local"}
        self.real_routing: RealRouting | None = None
        """Explains in place of `explanation`."""
        self.routed: Json | None = None
        self.spoken = "What is a mast?"
        self.documents: Json = {"passages": [], "files": 0}
        self.totals: Json = {"month": "2026-11", "requests": 0}
        self.full_names: dict[str, str] = {}
        self.loaded_context: int | None = None
        self.watchers: list[asyncio.Queue[Json]] = []
        self.watched_prompts: dict[str, str] = {}
        self._subscribers: list[asyncio.Queue[tuple[str, Json]]] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def script(self, *texts: str, **how: Any) -> None:
        """Script the next generation that has no script yet; see `Answer`."""
        self.answers.append(Answer(texts=list(texts), **how))

    def add_model(self, name: str, **changes: object) -> None:
        """Add a model, or replace the one of this name."""
        others = [model for model in self.models if model["name"] != name]
        self.models = [*others, model_entry(name, **changes)]

    def route_for_real(self, *providers: str) -> None:
        """Inspect texts as the daemon does; each provider has a model `big`."""
        from .real_routing import RealRouting

        self.real_routing = RealRouting(self.path.parent, providers)

    @property
    def cancelled(self) -> list[str]:
        return [name for name, generation in self.generations.items() if generation.cancelled]

    async def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))

    async def stop(self) -> None:
        """Close the socket and break every connection, as a killed daemon does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self.real_routing is not None:
            self.real_routing.router.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.path.unlink(missing_ok=True)

    def broadcast(self, name: str, data: Json) -> None:
        """Send an event on the shared stream."""
        for queue in self._subscribers:
            queue.put_nowait((name, data))

    def watch(self, *requests: Json) -> None:
        """Report requests to those who watch."""
        for queue in self.watchers:
            for request in requests:
                queue.put_nowait(request)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            request = await self._read(reader, writer)
            self.requests.append(request)
            await self._route(request)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
        machine = h11.Connection(h11.SERVER)
        head: h11.Request | None = None
        body = b""
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(65536)
                if not data:
                    raise ConnectionResetError
                machine.receive_data(data)
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return Request(head, body, machine, writer)

    async def _route(self, request: Request) -> None:
        routes: list[tuple[str, Callable[..., Awaitable[None]]]] = [
            (r"GET /health", self._health),
            (r"GET /ingle/v1/models", self._models),
            (r"GET /ingle/v1/status", self._status),
            (r"GET /ingle/v1/sampling", self._sampling),
            (r"GET /ingle/v1/doctor", self._doctor),
            (r"GET /ingle/v1/events(?:\?pages=(.+))?", self._events),
            (r"GET /ingle/v1/routing", self._routing),
            (r"POST /ingle/v1/routing/explain", self._explain),
            (r"POST /ingle/v1/routing/words", self._teach),
            (r"GET /ingle/v1/ledger/totals", self._totals),
            (r"POST /ingle/v1/documents/search", self._documents),
            (r"POST /ingle/v1/thumbnail", self._thumbnail),
            (r"POST /v1/audio/transcriptions", self._transcribe),
            (r"POST /v1/audio/speech", self._speak),
            (r"POST /ingle/v1/tokens", self._tokens),
            (r"GET /ingle/v1/watch", self._watch),
            (r"GET /ingle/v1/watch/(.+)", self._watched_prompt),
            (r"POST /ingle/v1/load", self._load),
            (r"POST /ingle/v1/unload", self._unload),
            (r"DELETE /ingle/v1/models/(.+)", self._remove),
            (r"GET /ingle/v1/engines", self._engines),
            (r"POST /ingle/v1/engines/decline", self._engines),
            (r"POST /ingle/v1/engines/install", self._install),
            (r"POST /ingle/v1/pull", self._pull),
            (r"POST /ingle/v1/pull/cancel", self._cancel_pull),
            (r"POST /ingle/v1/generations", self._generate),
            (r"GET /ingle/v1/generations/(gen-\w+)", self._generation),
            (r"GET /ingle/v1/generations/(gen-\w+)/events\?after=(\d+)", self._follow),
            (r"POST /ingle/v1/generations/(gen-\w+)/cancel", self._cancel),
        ]
        for pattern, handler in routes:
            match = re.fullmatch(pattern, f"{request.method} {request.target}")
            if match is not None:
                await handler(request, *match.groups())
                return
        error = {"code": "not_found", "message": f"No such route: {request.target}.", "hint": None}
        await request.answer({"error": error}, 404)

    async def _health(self, request: Request) -> None:
        await request.answer({"status": "ok"})

    async def _models(self, request: Request) -> None:
        await request.answer({"models": self.models, "pulls": self.pulls, "disk_free": 52 * 10**9})

    async def _sampling(self, request: Request) -> None:
        from ingle.daemon.protocols.native.sampling_api import list_sampling_options

        await request.answer(msgspec.to_builtins(list_sampling_options()))

    async def _status(self, request: Request) -> None:
        if self.status is not None:
            await request.answer(self.status)
            return
        error = {"code": "not_found", "message": "There is no status here.", "hint": None}
        await request.answer({"error": error}, 404)

    async def _doctor(self, request: Request) -> None:
        await request.answer(self.doctor)

    async def _routing(self, request: Request) -> None:
        await request.answer(self.routing)

    async def _explain(self, request: Request) -> None:
        if self.real_routing is not None:
            await request.answer(await self.real_routing.explain(request.body))
        elif self.explanation is None:
            error = {"code": "internal", "message": "The policy cannot be read.", "hint": None}
            await request.answer({"error": error}, 500)
        else:
            present: Json = {"hide": [], "show": []}
            await request.answer(present | self.explanation)

    async def _teach(self, request: Request) -> None:
        assert self.real_routing is not None
        self.real_routing.teach(request.body)
        await request.answer(self.routing)

    async def _documents(self, request: Request) -> None:
        await request.answer(self.documents)

    async def _thumbnail(self, request: Request) -> None:
        """A red pixel above a blue one, and a green column."""
        rgb = base64.b64encode(b"\xff\0\0\0\xff\0" + b"\0\0\xff\0\xff\0").decode()
        await request.answer({"width": 2, "height": 2, "rgb": rgb})

    async def _speak(self, request: Request) -> None:
        await request.answer(request.body["input"])

    async def _transcribe(self, request: Request) -> None:
        await request.answer({"text": self.spoken})

    async def _totals(self, request: Request) -> None:
        await request.answer(self.totals)

    async def _load(self, request: Request) -> None:
        context = self.loaded_context or request.body.get("context") or 8192
        await request.answer({"name": request.body["model"], "state": "ready", "context": context})

    async def _unload(self, request: Request) -> None:
        await request.answer({"unloaded": [request.body["model"]]})

    async def _remove(self, request: Request, name: str) -> None:
        model = next(m for m in self.models if m["name"] == unquote(name))
        self.models.remove(model)
        await request.answer({"removed": model["name"], "freed": model["size"]})

    async def _cancel_pull(self, request: Request) -> None:
        self.pull_error = {"code": "pull_cancelled", "message": "It was stopped.", "hint": None}
        self.pull_gate.set()
        await request.answer({"model": request.body["model"], "cancelled": True})

    async def _tokens(self, request: Request) -> None:
        """Count one token per word, four around each message, and three that open the answer."""
        texts = [message.get("content") or "" for message in request.body["messages"]]
        counts = [len(text.split()) + 4 for text in texts]
        total = sum(counts) + 3
        answer: Json = {"total": total, "messages": counts, "rest": 3, "context": self.context}
        await request.answer(answer)

    async def _events(self, request: Request, pages_of: str | None = None) -> None:
        queue: asyncio.Queue[tuple[str, Json]] = asyncio.Queue()
        self._subscribers.append(queue)
        await request.start_stream()
        try:
            if pages_of is not None:
                await request.event("pages", self.pages | {"model": unquote(pages_of)})
            while True:
                await request.event(*await queue.get())
        finally:
            self._subscribers.remove(queue)

    async def _watch(self, request: Request) -> None:
        queue: asyncio.Queue[Json] = asyncio.Queue()
        self.watchers.append(queue)
        await request.start_stream()
        try:
            while True:
                await request.event("request", await queue.get())
        finally:
            self.watchers.remove(queue)

    async def _watched_prompt(self, request: Request, name: str) -> None:
        if name in self.watched_prompts:
            await request.answer({"id": name, "text": self.watched_prompts[name]})
            return
        error = {"code": "not_found", "message": "No prompt of this id is kept.", "hint": None}
        await request.answer({"error": error}, 404)

    async def _engines(self, request: Request) -> None:
        await self.engines_gate.wait()
        await request.answer({"engines": self.engines, "offer": self.engine_offer})

    async def _install(self, request: Request) -> None:
        await request.start_stream()
        await request.event("progress", self.installation)
        await self.pull_gate.wait()
        if self.pull_error is not None:
            await request.event("error", {"error": self.pull_error})
        else:
            await request.event("done", self.engines[0])
        await request.end()

    async def _pull(self, request: Request) -> None:
        asked: str = request.body["model"]
        name = self.full_names.get(asked) or asked
        await request.start_stream()
        progress: Json = {"model": name, "source": "package index", "total": 98362432}
        for received in (0, 40_000_000):
            numbers = {"received": received, "bytes_per_second": 12e6, "eta": 4.0}
            await request.event("progress", progress | numbers | {"status": "downloading"})
        await self.pull_gate.wait()
        if self.pull_error is not None:
            await request.event("error", {"error": self.pull_error})
        else:
            self.pull_done.append(name)
            await request.event("done", model_entry(name, installed=True))
        await request.end()

    async def _generate(self, request: Request) -> None:
        answer = self.answers.pop(0) if self.answers else Answer()
        if answer.refuse is not None:
            status, error = answer.refuse
            await request.answer({"error": error}, status)
            return
        name = request.body.get("id") or f"gen-{len(self.generations) + 1}"
        generation = self.generations[name] = FakeGeneration(answer)
        self.prompts.append(request.body["messages"])
        model = request.body.get("model", "smollm2:135m")
        task = asyncio.get_running_loop().create_task(self._write(generation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if answer.reply_lost:
            raise ConnectionResetError
        await request.answer({"id": name, "model": model}, 202)

    async def _write(self, generation: FakeGeneration) -> None:
        answer = generation.answer
        if self.routed is not None:
            generation.push("route", self.routed)
        generation.push(
            "started",
            {
                "prompt_tokens": self.prompt_tokens,
                "cached_tokens": 8,
                "context": self.context,
            },
        )
        if answer.prefilled:
            prefill = {"prompt_tokens": self.prompt_tokens, "computed_tokens": answer.prefilled}
            generation.push("prefill", prefill)
        for thought in answer.thoughts:
            generation.push("reasoning", {"text": thought, "tokens": 2})
        for index, text in enumerate(answer.texts):
            if answer.gate_before == index:
                await self.gate.wait()
            if generation.cancelled:
                break
            if answer.error is not None and answer.error_after == index:
                generation.push("error", {"error": answer.error})
                return
            generation.push("delta", {"text": text, "tokens": 1})
            await asyncio.sleep(0)
        for number, (name, arguments) in enumerate(answer.calls):
            call = {"call": number, "id": f"call-{len(self.generations)}-{number}", "name": name}
            generation.push("tool_call", call | {"tokens": 3})
            generation.push("arguments", {"call": number, "text": arguments[:4], "tokens": 2})
            generation.push("arguments", {"call": number, "text": arguments[4:], "tokens": 2})
        end = "tool_calls" if answer.calls else "stop"
        generation.push(
            "finished",
            {
                "reason": "cancelled" if generation.cancelled else end,
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": len(answer.texts),
                "cached_tokens": 8,
                "context": self.context,
                "queue_seconds": 0.001,
                "prompt_seconds": 0.01,
                "decode_seconds": 0.1,
            },
        )

    async def _generation(self, request: Request, name: str) -> None:
        if name in self.generations:
            await request.answer({"id": name})
        else:
            await self._not_there(request)

    async def _not_there(self, request: Request) -> None:
        error = {"code": "generation_not_found", "message": "No such generation.", "hint": None}
        await request.answer({"error": error}, 404)

    async def _follow(self, request: Request, name: str, after: str) -> None:
        generation = self.generations.get(name)
        if generation is None:
            await self._not_there(request)
            return
        await request.start_stream()
        position = int(after)
        while True:
            while position < len(generation.events):
                if generation.answer.drop_after == position:
                    generation.answer.drop_after = None
                    raise ConnectionResetError
                await request.event(*generation.events[position], position + 1)
                position += 1
            if generation.done:
                await request.end()
                return
            generation.changed.clear()
            await generation.changed.wait()

    async def _cancel(self, request: Request, name: str) -> None:
        self.generations[name].cancelled = True
        self.gate.set()
        await request.answer({"id": name})
