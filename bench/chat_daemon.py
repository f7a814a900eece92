"""A scripted daemon for measuring chats: it answers at a given token rate without a model.

A prompt with "300 tokens at 200/s" in it sets count and rate; 0/s is as fast as possible. It serves
ingle's native API on a unix socket, and OpenAI's and Ollama's on a port for other chats. The times
of the first and last token of each answer go to standard output as a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from answer_text import answer_words

MODEL = "scripted:1"
CONTEXT = 131072
LAST = "Ѫ"
"""The last token of every answer; the letter is nowhere else."""
GAUGES_EVERY = 0.5
PAGES_EVERY = 0.25
_ORDER = re.compile(r"(\d+) tokens at (\d+)/s")
_CHUNK = b"%x\r\n%b\r\n"

Json = dict[str, Any]
Handler = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request, and the way to answer it."""

    def __init__(self, path: str, body: Json, writer: asyncio.StreamWriter) -> None:
        self.path = path
        self.body = body
        self._writer = writer

    async def answer(self, body: Json, status: str = "200 OK") -> None:
        """Send one JSON document."""
        content = json.dumps(body).encode()
        self._writer.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
            b"Connection: close\r\n\r\n" % (status.encode(), len(content)) + content
        )
        await self._writer.drain()

    async def start(self, kind: str = "text/event-stream") -> None:
        """Begin a stream."""
        self._writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n" % kind.encode()
        )
        await self._writer.drain()

    async def send(self, text: str) -> None:
        """Send a part of the stream; an empty one ends it."""
        data = text.encode()
        self._writer.write(_CHUNK % (len(data), data))
        await self._writer.drain()

    async def event(self, data: Json, name: str = "", number: int | None = None) -> None:
        """Send a server-sent event."""
        head = f"id: {number}\n" if number is not None else ""
        head += f"event: {name}\n" if name else ""
        await self.send(f"{head}data: {json.dumps(data)}\n\n")


class Answer:
    """The tokens of one answer, at their rate."""

    def __init__(self, messages: list[Json]) -> None:
        self.prompt_tokens = 20 + sum(len(str(m.get("content", ""))) // 4 for m in messages)
        # Agents send additions to a prompt in separate messages; some also request a title.
        wanted = " ".join(map(_text_of, messages[-3:]))
        order = None if _asks_for_title(messages) else _ORDER.search(wanted)
        self.count, self.rate = (int(order[1]), int(order[2])) if order else (30, 0)
        self.cancelled = False

    async def tokens(self) -> AsyncGenerator[str, None]:
        """Each when it is due."""
        start = time.perf_counter()
        for index, word in enumerate(answer_words(self.count)):
            if self.rate and (due := start + index / self.rate - time.perf_counter()) > 0:
                await asyncio.sleep(due)
            if self.cancelled:
                return
            if index == 0:
                _note("first")
            yield word
        yield f"\n\n{LAST}"
        _note("last")


class ChatDaemon:
    """Serves the routes that chats ask for."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._running = 0
        self._routes: list[tuple[str, Handler]] = [
            ("POST /ingle/v1/generations", self._generate),
            (r"GET /ingle/v1/generations/[\w-]+/events.*", self._follow),
            (r"POST /ingle/v1/generations/[\w-]+/cancel", self._cancel),
            ("GET /ingle/v1/models", self._models),
            ("GET /ingle/v1/status", self._status),
            (r"GET /ingle/v1/events.*", self._events),
            ("POST /ingle/v1/load", self._load),
            ("POST /ingle/v1/tokens", self._tokens),
            ("GET /v1/models", self._openai_models),
            ("POST /v1/chat/completions", self._openai_chat),
            ("POST /v1/responses", self._openai_responses),
            (r"POST /v1/messages(\?.*)?", self._anthropic_messages),
            (r"POST /v1/messages/count_tokens.*", self._anthropic_count),
            ("GET /api/tags", self._ollama_models),
            ("POST /api/show", self._ollama_show),
            ("POST /api/chat", self._ollama_chat),
            ("GET /api/version", self._version),
            ("(GET|HEAD) /(health)?", self._version),
        ]

    async def serve(self, socket: str, port: int) -> None:
        """Answer until cancelled."""
        await asyncio.start_unix_server(self._take, socket, limit=2**24)
        await asyncio.start_server(self._take, "127.0.0.1", port, limit=2**24)
        print(json.dumps({"ready": time.perf_counter()}), flush=True)
        await asyncio.Event().wait()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            found = re.search(r"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(found[1])) if found else b""
            method, path, _ = head.split(" ", 2)
            exchange = Exchange(path, json.loads(body) if body else {}, writer)
            for pattern, handler in self._routes:
                if re.fullmatch(pattern, f"{method} {path}"):
                    await handler(exchange)
                    return
            await exchange.answer({"error": {"message": f"Not here: {path}."}}, "404 Not Found")
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    # ingle's native API

    async def _generate(self, exchange: Exchange) -> None:
        name = f"gen-{len(self._answers) + 1}"
        self._answers[name] = Answer(exchange.body["messages"])
        await exchange.answer({"id": name, "model": MODEL}, "202 Accepted")

    async def _follow(self, exchange: Exchange) -> None:
        answer = self._answers[exchange.path.split("/")[4]]
        await exchange.start()
        facts = {"prompt_tokens": answer.prompt_tokens, "context": CONTEXT}
        await exchange.event({**facts, "cached_tokens": 0}, "started", 1)
        number = 1
        self._running += 1
        start = time.perf_counter()
        try:
            async for token in answer.tokens():
                number += 1
                await exchange.event({"text": token, "tokens": 1}, "delta", number)
        finally:
            self._running -= 1
        finished = {
            "reason": "cancelled" if answer.cancelled else "stop",
            "completion_tokens": number - 1,
            "decode_seconds": time.perf_counter() - start,
        }
        # Apart from the last token, so that it is seen whether that needed the end.
        await asyncio.sleep(0.3 if answer.rate else 0)
        await exchange.event({**facts, **finished}, "finished", number + 1)
        await exchange.send("")

    async def _cancel(self, exchange: Exchange) -> None:
        self._answers[exchange.path.split("/")[4]].cancelled = True
        await exchange.answer({})

    async def _models(self, exchange: Exchange) -> None:
        await exchange.answer({"models": [_MODEL_ENTRY]})

    async def _status(self, exchange: Exchange) -> None:
        await exchange.answer({"version": "0", "default_model": MODEL, "models": [self._loaded()]})

    async def _load(self, exchange: Exchange) -> None:
        await exchange.answer(self._loaded())

    async def _tokens(self, exchange: Exchange) -> None:
        counts = [len(str(m.get("content", ""))) // 4 + 4 for m in exchange.body["messages"]]
        await exchange.answer({"total": sum(counts), "messages": counts, "context": CONTEXT})

    async def _events(self, exchange: Exchange) -> None:
        await exchange.start()
        await exchange.event(self._loaded(), "model")
        with_pages = "pages=" in exchange.path
        step = 0
        while True:
            # An idle daemon reports it once, and then sends only occasional comments.
            if self._running or step == 0:
                if with_pages:
                    await exchange.event(self._pages(), "pages")
                if step % 2 == 0:
                    await exchange.event(self._gauges(), "gauges")
            step += 1
            await asyncio.sleep(PAGES_EVERY)

    def _loaded(self) -> Json:
        return {
            "name": MODEL,
            "state": "ready",
            "device": "cpu",
            "engine": "scripted",
            "context": CONTEXT,
            "slots": 4,
            "kv_capacity": CONTEXT,
            "kv_used": 30_000,
            "running": self._running,
            "weights_bytes": 5_900_000_000,
            "kv_bytes": 2_600_000_000,
            "completion_tokens_total": int(time.perf_counter() * 10),
        }

    def _gauges(self) -> Json:
        memory = {"total": 64 * 2**30, "available": 40 * 2**30, "daemon_rss": 10**8}
        device = {
            "name": "GPU",
            "kind": "gpu",
            "memory_total": 12 * 2**30,
            "memory_used": 9 * 2**30,
            "utilization": 0.5,
            "watts": 100.0,
        }
        return {"models": [self._loaded()], "memory": memory, "devices": [device]}

    def _pages(self) -> Json:
        mine = 200 + int(time.perf_counter() * 4) % 200
        groups = [
            {"conversations": ["a", "b"], "tokens": 800, "running": False},
            {"conversations": ["c"], "tokens": mine * 32, "running": True},
        ]
        runs = [[0, 26], [1, mine], [-1, 1024 - 26 - mine]]
        figures = {"page_tokens": 32, "pages": 1024, "groups": groups, "runs": runs}
        return {"model": MODEL, **figures}

    # OpenAI's and Ollama's

    async def _version(self, exchange: Exchange) -> None:
        await exchange.answer({"status": "ok", "version": "0.12.0"})

    async def _openai_models(self, exchange: Exchange) -> None:
        entry = {"id": MODEL, "object": "model", "created": 0, "owned_by": "bench"}
        await exchange.answer({"object": "list", "data": [entry]})

    async def _openai_chat(self, exchange: Exchange) -> None:
        answer = Answer(exchange.body["messages"])
        base = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
        if not exchange.body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "A title"}}
            usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
            choices = [{**choice, "finish_reason": "stop"}]
            whole = {"object": "chat.completion", "choices": choices, "usage": usage}
            await exchange.answer({**base, **whole})
            return
        await exchange.start()
        async for token in answer.tokens():
            delta = {"role": "assistant", "content": token}
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            await exchange.event({**base, "choices": [choice]})
        end: Json = {"index": 0, "delta": {}, "finish_reason": "stop"}
        await exchange.event({**base, "choices": [end]})
        await exchange.send("data: [DONE]\n\n")
        await exchange.send("")

    async def _openai_responses(self, exchange: Exchange) -> None:
        messages: list[Json] = exchange.body["input"]
        item: Json = {"type": "message", "id": "m", "role": "assistant", "status": "in_progress"}
        await exchange.start()
        response: Json = {"id": "r", "object": "response", "model": MODEL, "output": []}
        await exchange.event({"type": "response.created", "response": response})
        where = {"output_index": 0, "item_id": "m", "content_index": 0}
        added = {"type": "response.output_item.added", "output_index": 0}
        await exchange.event({**added, "item": {**item, "content": []}})
        text = ""
        async for token in Answer(messages).tokens():
            text += token
            await exchange.event({"type": "response.output_text.delta", **where, "delta": token})
        part: Json = {"type": "output_text", "text": text, "annotations": []}
        done: Json = {**item, "status": "completed", "content": [part]}
        await exchange.event({"type": "response.output_item.done", "output_index": 0, "item": done})
        usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
        response = {**response, "status": "completed", "output": [done], "usage": usage}
        await exchange.event({"type": "response.completed", "response": response})
        await exchange.send("")

    async def _anthropic_count(self, exchange: Exchange) -> None:
        await exchange.answer({"input_tokens": Answer(exchange.body["messages"]).prompt_tokens})

    async def _anthropic_messages(self, exchange: Exchange) -> None:
        system: Json = {"content": exchange.body.get("system", "")}
        answer = Answer([system, *exchange.body["messages"]])
        usage = {"input_tokens": answer.prompt_tokens, "output_tokens": 1}
        base = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "usage": usage}
        if not exchange.body.get("stream"):
            block = {"type": "text", "text": "A title"}
            await exchange.answer({**base, "content": [block], "stop_reason": "end_turn"})
            return
        await exchange.start()

        async def send(kind: str, **more: object) -> None:
            await exchange.event({"type": kind, **more}, kind)

        await send("message_start", message={**base, "content": [], "stop_reason": None})
        await send("content_block_start", index=0, content_block={"type": "text", "text": ""})
        async for token in answer.tokens():
            await send("content_block_delta", index=0, delta={"type": "text_delta", "text": token})
        await send("content_block_stop", index=0)
        await send("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9})
        await send("message_stop")
        await exchange.send("")

    async def _ollama_models(self, exchange: Exchange) -> None:
        entry = {"name": MODEL, "model": MODEL, "size": 1, "digest": "0", "details": _DETAILS}
        await exchange.answer({"models": [{**entry, "modified_at": "2026-01-01T00:00:00Z"}]})

    async def _ollama_show(self, exchange: Exchange) -> None:
        facts = {"llama.context_length": CONTEXT, "general.architecture": "llama"}
        shown = {"modelfile": "", "parameters": "", "template": "", "details": _DETAILS}
        await exchange.answer({**shown, "model_info": facts, "capabilities": ["completion"]})

    async def _ollama_chat(self, exchange: Exchange) -> None:
        base = {"model": MODEL, "created_at": "2026-01-01T00:00:00Z"}
        await exchange.start("application/x-ndjson")
        async for token in Answer(exchange.body["messages"]).tokens():
            message = {"role": "assistant", "content": token}
            await exchange.send(json.dumps({**base, "message": message, "done": False}) + "\n")
        message = {"role": "assistant", "content": ""}
        end = {**base, "message": message, "done": True, "done_reason": "stop"}
        await exchange.send(json.dumps({**end, "eval_count": 1, "eval_duration": 1}) + "\n")
        await exchange.send("")


_MODEL_ENTRY: Json = {
    "name": MODEL,
    "installed": True,
    "state": "ready",
    "default": True,
    "size": 5_900_000_000,
    "context": CONTEXT,
    "licence": "none",
    "chat": True,
    "task": "generate",
}
_DETAILS: Json = {
    "format": "gguf",
    "family": "llama",
    "families": ["llama"],
    "parameter_size": "1B",
    "quantization_level": "Q4_0",
}


def _text_of(message: Json) -> str:
    content = message.get("content", "")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)  # pyright: ignore
    return str(content)


def _asks_for_title(messages: list[Json]) -> bool:
    first = messages[0] if messages else {}
    return first.get("role", "system") == "system" and "title" in _text_of(first)[:2000].lower()


def _note(what: str) -> None:
    print(json.dumps({what: time.perf_counter()}), flush=True)


if __name__ == "__main__":
    asyncio.run(ChatDaemon().serve(sys.argv[1], int(sys.argv[2])))
