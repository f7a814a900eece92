"""Fixtures: tiny GGUF files, and a file server that misbehaves on request."""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ingle.models.catalog import Catalog, CatalogEntry, Location, URLLocation
from ingle.models.gguf.ggml_types import TENSOR_TYPES
from ingle.models.store.model_store import ModelStore

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class Typed:
    """A metadata value with its type; for an array also that of its elements."""

    kind: int
    value: Any
    element: int = STRING


@dataclass(frozen=True)
class Tensor:
    """A tensor's entry; the offset is computed unless given."""

    name: str
    shape: Sequence[int]
    kind: int = 0
    offset: int | None = None
    dimensions: int | None = None


def encode_string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def encode_value(kind: int, value: Any, element: int) -> bytes:
    if kind == STRING:
        return encode_string(value)
    if kind != ARRAY:
        return struct.pack("<" + _CODES[kind], value)
    head = struct.pack("<IQ", element, len(value))
    return head + b"".join(encode_value(element, item, STRING) for item in value)


@dataclass
class GGUFBuilder:
    """Builds a small llama model, valid unless a test changes it."""

    metadata: dict[str, Typed] = field(default_factory=dict[str, Typed])
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    version: int = 3
    magic: bytes = b"GGUF"
    alignment: int = 32
    tensor_count: int | None = None
    key_count: int | None = None
    extra_keys: bytes = b""

    def set(self, key: str, kind: int, value: Any, element: int = STRING) -> GGUFBuilder:
        self.metadata[key] = Typed(kind, value, element)
        return self

    def header(self) -> bytes:
        """Return everything up to the tensor data, without the padding before it."""
        keys = len(self.metadata) if self.key_count is None else self.key_count
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        parts = [self.magic, struct.pack("<IQQ", self.version, tensors, keys)]
        for key, typed in self.metadata.items():
            value = encode_value(typed.kind, typed.value, typed.element)
            parts += [encode_string(key), struct.pack("<I", typed.kind), value]
        parts.append(self.extra_keys)
        offset = 0
        for tensor in self.tensors:
            parts.append(self._entry(tensor, offset))
            offset += -(-self.data_bytes(tensor) // self.alignment) * self.alignment
        return b"".join(parts)

    def build(self, seed: int = 0) -> bytes:
        """Return the whole file; `seed` varies the weights."""
        header = self.header()
        header += bytes(-len(header) % self.alignment)
        size = sum(-(-self.data_bytes(t) // self.alignment) * self.alignment for t in self.tensors)
        stream = hashlib.shake_128(str(seed).encode()).digest(size)
        return header + stream

    @staticmethod
    def data_bytes(tensor: Tensor) -> int:
        elements = 1
        for length in tensor.shape:
            elements *= length
        kind = TENSOR_TYPES.get(tensor.kind, TENSOR_TYPES[0])
        return elements // kind.block_elements * kind.block_bytes

    @staticmethod
    def _entry(tensor: Tensor, offset: int) -> bytes:
        dimensions = len(tensor.shape) if tensor.dimensions is None else tensor.dimensions
        start = offset if tensor.offset is None else tensor.offset
        shape = struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)
        head = encode_string(tensor.name) + struct.pack("<I", dimensions)
        return head + shape + struct.pack("<IQ", tensor.kind, start)


def tiny_model() -> GGUFBuilder:
    builder = GGUFBuilder()
    builder.set("general.architecture", STRING, "llama")
    builder.set("general.name", STRING, "Tiny")
    builder.set("general.license", STRING, "apache-2.0")
    builder.set("general.file_type", UINT32, 3)
    for key, value in {
        "block_count": 2,
        "context_length": 2048,
        "embedding_length": 64,
        "feed_forward_length": 128,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "rope.dimension_count": 16,
        "vocab_size": 6,
    }.items():
        builder.set(f"llama.{key}", UINT32, value)
    builder.set("llama.rope.freq_base", FLOAT32, 10000.0)
    builder.set("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5)
    builder.set("tokenizer.ggml.model", STRING, "gpt2")
    builder.set("tokenizer.ggml.tokens", ARRAY, ["<s>", "</s>", "a", "b", "ab", "é"])
    builder.set("tokenizer.ggml.token_type", ARRAY, [3, 3, 1, 1, 1, 1], INT32)
    builder.set("tokenizer.ggml.add_bos_token", BOOL, True)
    builder.set("tokenizer.chat_template", STRING, "{{ messages[0]['content'] }}")
    builder.tensors = [
        Tensor("token_embd.weight", (64, 6), 3),
        Tensor("blk.0.attn_q.weight", (64, 64), 3),
        Tensor("output_norm.weight", (64,)),
    ]
    return builder


@pytest.fixture
def tiny() -> GGUFBuilder:
    """Return a valid model of a few kilobytes, to be changed and built."""
    return tiny_model()


@pytest.fixture
def tiny_parts(tmp_path: Path) -> Callable[..., list[Path]]:
    """Return a function that writes the tiny model as shards of one tensor each."""

    def write(folder: Path = tmp_path / "parts", name: str = "tiny-Q4_1") -> list[Path]:
        whole = tiny_model()
        folder.mkdir(parents=True, exist_ok=True)
        count = len(whole.tensors)
        paths: list[Path] = []
        for index, tensor in enumerate(whole.tensors):
            part = GGUFBuilder(dict(whole.metadata) if index == 0 else {}, [tensor])
            part.set("split.no", 2, index).set("split.count", 2, count)
            part.set("split.tensors.count", 5, count)
            paths.append(folder / f"{name}-{index + 1:05}-of-{count:05}.gguf")
            paths[-1].write_bytes(part.build(seed=index))
        return paths

    return write


@pytest.fixture
def new_tensor() -> Callable[..., Tensor]:
    """Return a factory of tensor entries for `GGUFBuilder.tensors`."""
    return Tensor


@pytest.fixture
def big_model() -> bytes:
    """Return a valid model of two megabytes, for interrupted downloads."""
    builder = tiny_model()
    builder.tensors.append(Tensor("output.weight", (1024, 512)))
    return builder.build()


@dataclass
class Behaviour:
    """How one path is served.

    Each entry of `cuts` ends one response after so many bytes; a `pause` follows every 64 KiB.
    """

    content: bytes
    etag: str | None = '"v1"'
    cuts: list[int] = field(default_factory=list[int])
    ignores_range: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    hold_after: int | None = None
    release: threading.Event = field(default_factory=threading.Event)
    lies_about_length: int = 0
    shifts_range: int = 0
    lies_about_total: int = 0
    pause: float = 0.0


@dataclass(frozen=True)
class Request:
    """A received request."""

    path: str
    headers: Mapping[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


class QuietServer(ThreadingHTTPServer):
    """Prints no errors about clients that disconnect, as many tests do."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


class FileServer:
    """Serves bytes on the loopback interface and keeps a log of the requests."""

    def __init__(self) -> None:
        self.paths: dict[str, Behaviour] = {}
        self.log: list[Request] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self, path: str, content: bytes, **behaviour: Any) -> str:
        """Serve `content` from now on; return its address."""
        self.paths[path] = Behaviour(content, **behaviour)
        return self.address + path

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {key.lower(): value for key, value in handler.headers.items()}
        self.log.append(Request(handler.path, headers))
        behaviour = self.paths.get(handler.path.partition("?")[0], Behaviour(b"", status=404))
        start, end = self._range(behaviour, headers)
        body = behaviour.content[start:end]
        is_part = start > 0 or end is not None
        if start >= len(behaviour.content) > 0:
            handler.send_response(416)
            body = b""
        else:
            handler.send_response(206 if is_part else behaviour.status)
        if is_part:
            total = len(behaviour.content)
            last = start + max(len(body), 1) - 1
            first, said = start + behaviour.shifts_range, total + behaviour.lies_about_total
            handler.send_header("Content-Range", f"bytes {first}-{last}/{said}")
        if behaviour.etag is not None:
            handler.send_header("ETag", behaviour.etag)
        for key, value in behaviour.headers.items():
            handler.send_header(key, value)
        handler.send_header("Content-Length", str(len(body) + behaviour.lies_about_length))
        handler.end_headers()
        self._send(handler, behaviour, body)

    def close(self) -> None:
        for behaviour in self.paths.values():
            behaviour.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @staticmethod
    def _range(behaviour: Behaviour, headers: Mapping[str, str]) -> tuple[int, int | None]:
        """Return the first byte to send, and the one after the last if requested."""
        asked = headers.get("range", "")
        condition = headers.get("if-range")
        if not asked or behaviour.ignores_range or behaviour.status != 200:
            return 0, None
        if condition is not None and condition != behaviour.etag:
            return 0, None
        start, _, last = asked.removeprefix("bytes=").partition("-")
        return int(start), int(last) + 1 if last else None

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, behaviour: Behaviour, body: bytes) -> None:
        end = behaviour.cuts.pop(0) if behaviour.cuts else len(body)
        try:
            if behaviour.hold_after is not None:
                handler.wfile.write(body[: behaviour.hold_after])
                handler.wfile.flush()
                behaviour.release.wait(30)
                handler.wfile.write(body[behaviour.hold_after : end])
            else:
                step = 1 << 16 if behaviour.pause else max(1, end)
                for start in range(0, end, step):
                    handler.wfile.write(body[start : min(start + step, end)])
                    time.sleep(behaviour.pause)
        except OSError:  # the client disconnected, as some tests do
            handler.close_connection = True
        if end < len(body) or behaviour.lies_about_length:
            handler.close_connection = True


@pytest.fixture
def server() -> Generator[FileServer]:
    """Return a file server for this test only."""
    running = FileServer()
    yield running
    running.close()


ServeHub = Callable[..., None]


@pytest.fixture
def serve_hub(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> ServeHub:
    """Return a function that makes SERVER the hub: `serve_hub(repository, {path: content})`."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        server.address + "/{repo_id}/resolve/{revision}/{filename}",
    )

    def serve(repo: str, files: Mapping[str, bytes], **lies: Any) -> None:
        siblings: list[dict[str, Any]] = []
        for name, content in files.items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(content)}
            if not name.endswith((".json", ".txt")):
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"size": len(content), "sha256": digest, "pointerSize": 1}
            siblings.append(entry)
            server.serve(f"/{repo}/resolve/{HUB_COMMIT}/{name}", content)
        info = {"id": repo, "sha": HUB_COMMIT, "siblings": siblings, "tags": [], "private": False}
        body = json.dumps(info | {"cardData": {"license": "mit"}} | lies).encode()
        server.serve(f"/api/models/{repo}", body, headers={"Content-Type": "application/json"})

    return serve


HUB_COMMIT = "c" * 40
MakeStore = Callable[..., ModelStore]


@pytest.fixture
def make_store(tmp_path: Path) -> MakeStore:
    """Return a factory of stores with one catalog model, `tiny:1b`, in FILE."""

    def make(content: bytes, *urls: str, locations: Sequence[Location] = ()) -> ModelStore:
        entry = CatalogEntry(
            name="tiny",
            tag="1b",
            aliases=["wee"],
            description="A model for tests.",
            licence="MIT",
            parameters=1,
            quantization="Q4_1",
            context=2048,
            chat=True,
            file="tiny.gguf",
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            sampling={"temperature": 0.3},
            sources=[*locations, *(URLLocation(url) for url in urls)],
        )
        return ModelStore(tmp_path / "store", Catalog([entry], "tiny"))

    return make


CACHED_COMMIT = "0123456789abcdef0123456789abcdef01234567"


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def cached() -> Callable[..., Path]:
    """Return a function that puts a file into a hub cache; it returns its link in the snapshot."""

    def put(hub: Path, repo: str, name: str, content: bytes) -> Path:
        folder = hub / f"models--{repo.replace('/', '--')}"
        blob = folder / "blobs" / digest_of(content)
        link = folder / "snapshots" / CACHED_COMMIT / name
        for path in (blob, link, folder / "refs" / "main"):
            path.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        (folder / "refs" / "main").write_text(CACHED_COMMIT)
        link.symlink_to(Path(*[".."] * (2 + name.count("/"))) / "blobs" / blob.name)
        return link

    return put


@pytest.fixture
def in_ollama() -> Callable[..., Path]:
    """Return a function that puts a model into a folder of Ollama's; it returns its manifest."""

    def put(folder: Path, place: str, **layers: bytes) -> Path:
        (folder / "blobs").mkdir(parents=True, exist_ok=True)
        listed: list[dict[str, Any]] = []
        for kind, content in layers.items():
            (folder / "blobs" / f"sha256-{digest_of(content)}").write_bytes(content)
            listed.append(
                {
                    "mediaType": f"application/vnd.ollama.image.{kind}",
                    "digest": f"sha256:{digest_of(content)}",
                    "size": len(content),
                }
            )
        path = folder / "manifests" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schemaVersion": 2, "layers": listed}))
        return path

    return put


@pytest.fixture
def model(tiny: GGUFBuilder) -> bytes:
    """Return a model of a few kilobytes."""
    return tiny.build()
