"""Pictures through a daemon, from each protocol's own client, to a small model that sees."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.harness.hostile_files import (
    HARMLESS_PICTURES,
    HOSTILE_DOCUMENTS,
    HOSTILE_PICTURES,
)
from tests.harness.small_pdf import write_small_pdf
from tests.harness.small_projector import PICTURE_TOKENS

from .seeing_daemon import png, seeing_daemon

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


def encoded(seed: int) -> str:
    return base64.b64encode(png(seed)).decode()


def uri(seed: int) -> str:
    return f"data:image/png;base64,{encoded(seed)}"


def image_url(seed: int) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": uri(seed)}}


def anthropic_image(seed: int) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": encoded(seed)}
    return {"type": "image", "source": source}


@pytest.fixture
async def daemon(run_daemon: DaemonFactory, tmp_path: Path) -> AsyncIterator[RunningDaemon]:
    async with seeing_daemon(run_daemon, tmp_path) as daemon:
        yield daemon


async def chat(daemon: RunningDaemon, content: Any, **fields: Any) -> Any:
    body = {
        "model": "seeing",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        "max_tokens": 8,
        "logprobs": True,
        **fields,
    }
    answer = await daemon.tcp.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def likelihoods(answer: Any) -> list[float]:
    return [token["logprob"] for token in answer["choices"][0]["logprobs"]["content"]]


async def test_pictures_are_seen_counted_and_cached(daemon: RunningDaemon) -> None:
    text = {"type": "text", "text": "what is in it then " * 4}
    alone = await chat(daemon, [text])
    first, again, other = [await chat(daemon, [image_url(n), text]) for n in (1, 1, 2)]
    added = first["usage"]["prompt_tokens"] - alone["usage"]["prompt_tokens"]
    # The model's own marks around a picture are text here, a few dozen letters.
    assert PICTURE_TOKENS < added < PICTURE_TOKENS + 60
    assert likelihoods(first) == pytest.approx(likelihoods(again), abs=5e-3)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > PICTURE_TOKENS
    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] <= added - PICTURE_TOKENS
    assert likelihoods(first) != pytest.approx(likelihoods(other), abs=5e-3)
    both = await chat(daemon, [image_url(1), {"type": "text", "text": "and"}, image_url(2), text])
    assert both["usage"]["prompt_tokens"] > first["usage"]["prompt_tokens"] + PICTURE_TOKENS


async def test_pictures_in_a_plain_prompt(daemon: RunningDaemon) -> None:
    async def ask(text: str, *seeds: int, times: int = 0) -> httpx.Response:
        one = {"prompt_string": text, "multimodal_data": [encoded(seed) for seed in seeds]}
        prompt = [one] * times if times else one
        body = {"model": "seeing", "prompt": prompt, "n_predict": 4, "temperature": 0}
        return await daemon.tcp.post("/completion", json=body, timeout=60)

    props = (await daemon.tcp.get("/props?model=seeing")).json()
    assert (props["modalities"]["vision"], props["media_marker"]) == (True, "<__media__>")
    alone, shown, both = [
        (await ask(text, *seeds)).json()
        for text, seeds in [
            ("u what ", ()),
            ("u <__media__>what ", (1,)),
            ("u <__media__>what <__media__>", (1, 2)),
        ]
    ]
    added = [each["tokens_evaluated"] - alone["tokens_evaluated"] for each in (shown, both)]
    assert PICTURE_TOKENS < added[0] < PICTURE_TOKENS + 60
    assert added[1] > added[0] + PICTURE_TOKENS
    listed = await ask("u <__media__>what ", 1, times=1)
    assert listed.json()["tokens_evaluated"] == shown["tokens_evaluated"]
    wrong = await ask("u what ", 1)
    assert wrong.status_code == 400
    assert "1 pictures and 0 marks" in wrong.text
    assert "one by one" in (await ask("u <__media__>what ", 1, times=2)).text


@pytest.mark.slow
async def test_texts_and_pictures_at_once(daemon: RunningDaemon) -> None:
    text = {"type": "text", "text": "what is there"}
    prompts = [[image_url(1), text], [text], [image_url(2), text], [image_url(1), text]]
    alone = [await chat(daemon, prompt) for prompt in prompts]
    together = await asyncio.gather(*(chat(daemon, prompt) for prompt in prompts))
    for one, other in zip(alone, together, strict=True):
        assert likelihoods(one) == pytest.approx(likelihoods(other), abs=5e-3)


async def test_official_clients_send_pictures(daemon: RunningDaemon) -> None:
    counts = await asyncio.to_thread(_ask_with_clients, daemon.base_url)
    assert all(count > PICTURE_TOKENS for count in counts), counts


def _ask_with_clients(address: str) -> list[int]:
    """The prompt tokens that each client reports."""
    import anthropic
    import ollama
    import openai

    text = "what"
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none") as client:
        content: Any = [{"type": "text", "text": text}, image_url(1)]
        said = client.chat.completions.create(
            model="seeing", messages=[{"role": "user", "content": content}], max_tokens=4
        )
        parts: Any = [
            {"type": "input_text", "text": text},
            {"type": "input_image", "image_url": uri(1)},
        ]
        response = client.responses.create(
            model="seeing", input=[{"role": "user", "content": parts}], max_output_tokens=4
        )
        turn = client.responses.create(
            model="seeing", input="and", previous_response_id=response.id, max_output_tokens=4
        )
    assert said.usage is not None
    assert response.usage is not None
    assert turn.usage is not None
    assert turn.usage.input_tokens > response.usage.input_tokens
    with anthropic.Anthropic(base_url=address, api_key="none") as claude:
        blocks: Any = [anthropic_image(1), {"type": "text", "text": text}]
        use: Any = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
        shown: Any = {"type": "tool_result", "tool_use_id": "t1", "content": [anthropic_image(2)]}
        message = claude.messages.create(
            model="seeing", max_tokens=4, messages=[{"role": "user", "content": blocks}]
        )
        after: Any = [
            {"role": "user", "content": text},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [shown]},
        ]
        result = claude.messages.create(model="seeing", max_tokens=4, messages=after)
        counted = claude.messages.count_tokens(model="seeing", messages=after)
    assert counted.input_tokens == result.usage.input_tokens
    opened: Any = ollama.Client(address)  # its context manager has no type
    with opened as llama:
        asked = {"role": "user", "content": text, "images": [png(1)]}
        replied = llama.chat("seeing", messages=[asked], options={"num_predict": 4})
        generated = llama.generate("seeing", text, images=[png(1)], options={"num_predict": 4})
        assert "vision" in (llama.show("seeing").capabilities or [])
    return [
        said.usage.prompt_tokens,
        response.usage.input_tokens,
        message.usage.input_tokens,
        result.usage.input_tokens,
        replied.prompt_eval_count or 0,
        generated.prompt_eval_count or 0,
    ]


async def test_lm_studio_and_native_routes(daemon: RunningDaemon) -> None:
    parts = [{"type": "text", "content": "what"}, {"type": "image", "data_url": uri(1)}]
    body = {"model": "seeing", "input": parts, "max_output_tokens": 4}
    answer = (await daemon.tcp.post("/api/v1/chat", json=body)).json()
    assert answer["stats"]["input_tokens"] > PICTURE_TOKENS
    models = (await daemon.tcp.get("/api/v1/models")).json()["models"]
    model = next(model for model in models if model["key"] == "seeing:latest")
    assert model["capabilities"]["vision"]
    messages = [{"role": "user", "content": [{"type": "text", "text": "what"}, image_url(1)]}]
    counted = await daemon.tcp.post(
        "/ingle/v1/tokens", json={"model": "seeing", "messages": messages}
    )
    assert counted.json()["messages"][0] > PICTURE_TOKENS
    listed = (await daemon.tcp.get("/v1/models")).json()["data"]
    sees = {model["id"]: "vision" in model["capabilities"] for model in listed}
    props = await daemon.tcp.get("/props", params={"model": "seeing"})
    assert props.json()["modalities"]["vision"]
    routed = (await daemon.tcp.get("/models")).json()["data"]
    reads = {each["id"]: each["architecture"]["input_modalities"] for each in routed}
    assert (reads["seeing:latest"], reads["blind:latest"]) == (["text", "image"], ["text"])
    assert sees["seeing:latest"]
    assert not sees["blind:latest"]


@pytest.mark.slow
async def test_documents_are_read_as_text(daemon: RunningDaemon) -> None:
    counts = await asyncio.to_thread(_send_documents, daemon.base_url)
    assert min(counts) > 200, counts


def _send_documents(address: str) -> list[int]:
    """The prompt tokens that clients report for a PDF of 200 letters."""
    import anthropic
    import openai

    data = base64.b64encode(write_small_pdf("letters and more " * 12)).decode()
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none") as client:
        uri = f"data:application/pdf;base64,{data}"
        part: Any = {"type": "file", "file": {"filename": "a.pdf", "file_data": uri}}
        said = client.chat.completions.create(
            model="blind", messages=[{"role": "user", "content": [part]}], max_tokens=2
        )
        shown: Any = {"type": "input_file", "filename": "a.pdf", "file_data": uri}
        response = client.responses.create(
            model="blind", input=[{"role": "user", "content": [shown]}], max_output_tokens=2
        )
    with anthropic.Anthropic(base_url=address, api_key="none") as claude:
        source = {"type": "base64", "media_type": "application/pdf", "data": data}
        block: Any = {"type": "document", "source": source}
        message = claude.messages.create(
            model="blind", max_tokens=2, messages=[{"role": "user", "content": [block]}]
        )
    assert said.usage is not None
    assert response.usage is not None
    return [said.usage.prompt_tokens, response.usage.input_tokens, message.usage.input_tokens]


async def test_models_without_eyes(daemon: RunningDaemon) -> None:
    message = {"role": "user", "content": [image_url(1)]}
    answer = await daemon.tcp.post(
        "/v1/chat/completions", json={"model": "blind", "messages": [message]}
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "no_vision")
    assert "seeing:latest" in error["message"]
    assert not daemon.services.manager.loaded()
    # What a tool returned cannot be taken back.
    use: Any = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    shown: Any = {"type": "tool_result", "tool_use_id": "t1", "content": [anthropic_image(2)]}
    after: list[Any] = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [shown]},
    ]
    body: Any = {"model": "blind", "max_tokens": 2, "messages": after}
    assert (await daemon.tcp.post("/v1/messages", json=body)).status_code == 200


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://fabrikam.org/a.png", "not fetched"),
        ("file:///etc/passwd", "not fetched"),
        ("a.png", "no data URI"),
        ("data:image/png;base64,AAAA", "holds no picture"),
        (f"data:image/png;base64,{encoded(1)[:400]}", "damaged"),
    ],
)
async def test_what_cannot_be_read_is_refused(daemon: RunningDaemon, url: str, words: str) -> None:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "seeing", "messages": [{"role": "user", "content": content}]}
    answer = await daemon.tcp.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert (await daemon.tcp.get("/health")).status_code == 200


MOST_MEMORY = 700 * 2**20
"""Of the process that decodes: 64 million pixels with a copy of them, and its libraries."""


def peak_memory(daemon: RunningDaemon) -> int:
    decoder = daemon.services.manager.pictures
    pid = decoder._process.pid  # pyright: ignore[reportPrivateUsage]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines() if pid is not None else ()
    return max((int(line.split()[1]) * 1024 for line in lines if "VmHWM" in line), default=0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_sixty_hostile_files_cost_only_themselves(daemon: RunningDaemon) -> None:
    async def send(data: bytes, kind: str) -> httpx.Response:
        body = base64.b64encode(data).decode()
        part: dict[str, Any] = {"image_url": {"url": f"data:image/png;base64,{body}"}}
        if kind == "file":
            part = {"file": {"filename": "a.pdf", "file_data": body}}
        messages = [{"role": "user", "content": [{"type": kind, **part}]}]
        request = {"model": "seeing", "messages": messages, "max_tokens": 2}
        return await daemon.tcp.post("/v1/chat/completions", json=request, timeout=60)

    asked = [("image_url", *item) for item in (HOSTILE_PICTURES | HARMLESS_PICTURES).items()]
    asked += [("file", *item) for item in HOSTILE_DOCUMENTS.items()]
    assert len(asked) >= 60
    codes = {"image_url": "invalid_picture", "file": "invalid_document"}
    readable: list[str] = []
    most = 0
    for kind, name, data in asked:
        answer = await send(data, kind)
        if answer.status_code == 200:
            readable.append(name)
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, codes[kind]), name
        most = max(most, peak_memory(daemon))
    assert readable == [*HARMLESS_PICTURES, "more pages than there are"]
    assert 0 < most < MOST_MEMORY
    assert (await send(png(1), "image_url")).status_code == 200
    assert (await send(write_small_pdf("fine"), "file")).status_code == 200
