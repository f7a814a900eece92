"""End-to-end tests of a real daemon with a real model, through CLI, curl and SDKs."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import httpx
import llama_cpp
import psutil
import pydantic
import pytest

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletionMessageParam

pytestmark = pytest.mark.model

StillRunning = Callable[[Iterable[psutil.Process]], list[psutil.Process]]

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
CAPITAL: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the capital of France?"}
]


class RunningDaemon:
    """`ingle serve` in its own process, with SmolLM2 in its store."""

    def __init__(self, home: Path) -> None:
        self.environ = {**os.environ, "INGLE_HOME": str(home)}
        self.socket = home / "ingle.sock"
        self.process = subprocess.Popen(
            [INGLE, "serve", "--port", "0", "--socket", str(self.socket)],
            env=self.environ,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while not self.socket.exists():
            assert time.monotonic() < deadline, "the daemon does not listen"
            time.sleep(0.01)
        self.http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(self.socket)),
            base_url="http://localhost",
            timeout=120,
        )
        status = self.http.get("/ingle/v1/status").json()
        self.base_url = f"http://{status['address']}/v1"

    def worker_pid(self) -> int:
        (model,) = self.http.get("/ingle/v1/status").json()["models"]
        return model["pid"]

    def stop(self) -> None:
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


def start(home: Path, model: Path) -> RunningDaemon:
    """Create a home whose store shares the cached model, and start a daemon on it."""
    shutil.copytree(
        model.parents[2],
        home / "models",
        copy_function=os.link,
        ignore=shutil.ignore_patterns(".locks"),
    )
    return RunningDaemon(home)


@pytest.fixture(scope="module")
def daemon(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    home = smollm2_path.parents[3] / f"end-to-end-{os.getpid()}"  # hard links need one file system
    running = start(home, smollm2_path)
    yield running
    running.stop()
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def reference(smollm2_path: Path) -> Iterator[llama_cpp.Llama]:
    model = llama_cpp.Llama(str(smollm2_path), n_ctx=2048, flash_attn=True, verbose=False)
    yield model
    model.close()


def test_cli_run_answers(daemon: RunningDaemon) -> None:
    environ = {**daemon.environ, "INGLE_SOCKET": str(daemon.socket)}
    done = subprocess.run(
        [INGLE, "run", "smollm2", "What is the capital of France?"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    assert "Paris" in done.stdout
    assert done.stderr == ""


def test_openai_client_streams(daemon: RunningDaemon) -> None:
    import openai

    with openai.OpenAI(base_url=daemon.base_url, api_key="none") as client:
        stream = client.chat.completions.create(
            model="smollm2",
            messages=CAPITAL,
            stream=True,
            temperature=0,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "The capital of France is Paris."
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_streams_from_the_unix_socket(daemon: RunningDaemon) -> None:
    body = {"model": "smollm2", "messages": CAPITAL, "stream": True, "temperature": 0}
    command = ["curl", "-sN", "--unix-socket", str(daemon.socket), "-d", json.dumps(body)]
    done = subprocess.run(
        [*command, "http://localhost/v1/chat/completions"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in done.stdout.split("\n") if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in lines[:-1]]
    assert "".join(d.get("content") or "" for d in deltas) == "The capital of France is Paris."


@pytest.mark.parametrize(
    "prompt",
    ["def fibonacci(n):", pytest.param("The three primary colours are", marks=pytest.mark.slow)],
)
def test_greedy_text_equals_llama_cpp_python(
    daemon: RunningDaemon, reference: llama_cpp.Llama, prompt: str
) -> None:
    body = {"model": "smollm2", "prompt": prompt, "max_tokens": 40, "temperature": 0}
    body |= {"repeat_penalty": 1.0}
    ours = daemon.http.post("/v1/completions", json=body).json()
    theirs = reference.create_completion(prompt, max_tokens=40, temperature=0, repeat_penalty=1.0)
    assert ours["choices"][0]["text"] == theirs["choices"][0]["text"]  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue]


@pytest.mark.slow
async def test_eight_clients_stream_concurrently(daemon: RunningDaemon) -> None:
    """Every stream starts before the first one ends: they share the batch."""
    import openai

    async def ask(client: openai.AsyncOpenAI, topic: str) -> tuple[float, float, int]:
        stream = await client.completions.create(
            model="smollm2",
            prompt=f"Write about {topic}.",
            max_tokens=48,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        first, tokens = 0.0, 0
        async for chunk in stream:
            first = first or time.monotonic()
            tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        return first, time.monotonic(), tokens

    topics = ["tea", "rain", "bread", "maps", "ants", "ships", "glass", "snow"]
    async with openai.AsyncOpenAI(base_url=daemon.base_url, api_key="none") as client:
        results = await asyncio.gather(*(ask(client, topic) for topic in topics))
    assert max(first for first, _, _ in results) < min(end for _, end, _ in results)
    assert [tokens for _, _, tokens in results] == [48] * len(topics)


class Step(pydantic.BaseModel):
    action: Annotated[str, pydantic.StringConstraints(max_length=20)]
    minutes: Annotated[int, pydantic.Field(ge=1, le=60)]


class Recipe(pydantic.BaseModel):
    title: Annotated[str, pydantic.StringConstraints(max_length=20)]
    difficulty: Literal["easy", "hård"]
    steps: Annotated[list[Step], pydantic.Field(min_length=1, max_length=2)]
    source: Annotated[str, pydantic.StringConstraints(max_length=10)] | None


RECIPE: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Give me a recipe for tea as JSON."}
]


@pytest.mark.slow
async def test_openai_client_parses_structured_outputs(daemon: RunningDaemon) -> None:
    """Whole and streamed, several at once, greedy and sampled."""
    import openai

    async def whole(client: openai.AsyncOpenAI, temperature: float) -> None:
        answer = await client.chat.completions.parse(
            model="smollm2", messages=RECIPE, response_format=Recipe, temperature=temperature
        )
        message = answer.choices[0].message
        assert message.parsed == Recipe.model_validate_json(message.content or "")
        assert answer.choices[0].finish_reason == "stop"

    async def streamed(client: openai.AsyncOpenAI) -> None:
        async with client.chat.completions.stream(
            model="smollm2", messages=RECIPE, response_format=Recipe, logprobs=True, top_logprobs=2
        ) as stream:
            pieces = [event.delta async for event in stream if event.type == "content.delta"]
            final = await stream.get_final_completion()
        choice = final.choices[0]
        assert "".join(pieces) == choice.message.content
        assert choice.message.parsed == Recipe.model_validate_json("".join(pieces))
        assert choice.logprobs is not None
        tokens = choice.logprobs.content or []
        written = b"".join(bytes(token.bytes or []) for token in tokens)
        assert written.decode() == choice.message.content
        assert all(len(token.top_logprobs) == 2 for token in tokens)

    async with openai.AsyncOpenAI(base_url=daemon.base_url, api_key="none") as client:
        await asyncio.gather(*(whole(client, t) for t in (0, 0.5, 1)), streamed(client))


def test_structured_outputs_of_every_kind(daemon: RunningDaemon) -> None:
    def answer(**fields: object) -> str:
        body = {"model": "smollm2", "messages": CAPITAL, "max_tokens": 40, **fields}
        reply = daemon.http.post("/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()["choices"][0]["message"]["content"]

    assert answer(structured_outputs={"choice": ["Paris", "Rome"]}, temperature=0) == "Paris"
    assert re.fullmatch("[0-9]{3}", answer(structured_outputs={"regex": "[0-9]{3}"}))
    assert re.fullmatch("[a-c]{4}", answer(grammar="root ::= [a-c]{4}"))
    assert answer(grammar='start: "x" "y"') == "xy"
    assert answer(response_format={"type": "json_object"}).startswith("{")


def test_unsatisfiable_schemas_are_refused(daemon: RunningDaemon) -> None:
    impossible: list[dict[str, Any]] = [
        {"type": "integer", "minimum": 5, "maximum": 2},
        {"not": {}},
    ]
    for schema in impossible:
        strict = {"name": "x", "schema": schema, "strict": True}
        response_format = {"type": "json_schema", "json_schema": strict}
        body: dict[str, Any] = {"model": "smollm2", "messages": CAPITAL}
        body["response_format"] = response_format
        refused = daemon.http.post("/v1/chat/completions", json=body)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "invalid_schema"


def test_killing_the_worker_fails_one_request(daemon: RunningDaemon) -> None:
    body = {"model": "smollm2", "prompt": "Count:", "max_tokens": 2000, "stream": True}
    events: list[str] = []
    with daemon.http.stream("POST", "/v1/completions", json=body | {"ignore_eos": True}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                events.append(line[6:])
                if len(events) == 3:
                    os.kill(daemon.worker_pid(), signal.SIGKILL)
    error = json.loads(events[-1])["error"]
    assert "SIGKILL" in error["message"]
    assert error["code"] == "worker_died"
    answer = daemon.http.post(
        "/v1/chat/completions", json={"model": "smollm2", "messages": CAPITAL, "temperature": 0}
    ).json()
    assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."


def test_damaged_model_files_are_refused_with_an_error(
    daemon: RunningDaemon, smollm2_path: Path, tmp_path: Path
) -> None:
    size = smollm2_path.stat().st_size
    cuts = [0, 3, 24, 1000, 10**5, 10**6, size // 10, size // 2, size - 2**20, size - 1]
    broken = tmp_path / "broken.gguf"
    with smollm2_path.open("rb") as source:
        whole = source.read()
    noise = random.Random(1).randbytes(4096)
    for content in (*(whole[:cut] for cut in cuts), noise, b"GGUF" + noise):
        broken.write_bytes(content)
        answer = daemon.http.post(
            "/v1/chat/completions", json={"model": str(broken), "messages": CAPITAL}
        )
        assert answer.status_code == 422, (len(content), answer.text)
        assert "broken.gguf" in answer.json()["error"]["message"]
    assert daemon.process.poll() is None


def test_prompt_beyond_the_context_is_refused(daemon: RunningDaemon) -> None:
    messages = [{"role": "user", "content": "word " * 9000}]
    answer = daemon.http.post(
        "/v1/chat/completions", json={"model": "smollm2", "messages": messages}
    )
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "too many" in error["message"]


def test_killing_the_daemon_leaves_no_process(
    smollm2_path: Path, still_running: StillRunning
) -> None:
    home = smollm2_path.parents[3] / f"killed-{os.getpid()}"
    running = start(home, smollm2_path)
    try:
        running.http.post("/ingle/v1/load", json={"model": "smollm2"}).raise_for_status()
        family = psutil.Process(running.process.pid).children(recursive=True)
        assert family, "a loaded model has a process"
        running.process.kill()
        running.process.wait()
        assert not still_running(family)
    finally:
        running.http.close()
        shutil.rmtree(home)
