"""The rate at which passages of documents get vectors, beside llama-server's on the same model."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import psutil
from comparison import Comparison
from cpu_meter import IdleGate, spent, tree_usage
from ingle_server import IngleServer
from machine import save
from peers import LlamaServer
from scenarios import Figure, Measured, Scenario, Sizes
from server import Server, Settings

from ingle.daemon.client.document_types import FoundPassages

DOCS = Path(__file__).parent.parent / "docs"
AT_ONCE = 32
"""Texts of a request, as in ingle's own."""
STREAMS = 2
"""Requests that llama-server has at once, so that it never waits for the client."""
RATE = Figure("rate", "vectors", "t/s", more_is_better=True)
WORK = Figure("work", "vectors", "tokens per second of processor time", more_is_better=True)
"""Of all processes of the server: less disturbed by what else the machine does."""


class DocumentServer(IngleServer):
    """A daemon with one embedding model, which the search in documents uses."""

    def __init__(self, settings: Settings, folder: Path, model_name: str = "measured") -> None:
        """The name decides which prefixes texts get."""
        super().__init__(settings, folder)
        self._model_name = model_name

    def describe(self) -> dict[str, object]:
        """Return what the measured path is."""
        return super().describe() | {"path": "search in documents: index, daemon, worker, index"}

    def model_name(self) -> str:
        """Return the name that the model was added under."""
        return self._model_name

    def _load(self, model: Path) -> None:
        self.post("/ingle/v1/models", {"path": str(model), "name": self.model_name()})
        self.post("/ingle/v1/load", {"model": self.model_name(), "keep_alive": -1})

    def search(self, folder: Path, question: str = "vectors", most: int = 1) -> FoundPassages:
        """Search in a folder, after which its passages get vectors."""
        body: dict[str, object] = {"folder": str(folder), "question": question, "most": most}
        answer = self.post("/ingle/v1/documents/search", body | {"wait": 60})
        return msgspec.convert(answer, FoundPassages)

    def wait_for_vectors(self) -> None:
        """Return once every text in the youngest index has a vector."""
        while self._missing_vectors():
            time.sleep(0.02)

    def _missing_vectors(self) -> int:
        with closing(self.index()) as index:
            counted = "SELECT (SELECT count(DISTINCT digest) FROM passages) - count(*) FROM vectors"
            return index.execute(counted).fetchone()[0]

    def index(self) -> sqlite3.Connection:
        """Return the youngest index."""
        files = self.folder.rglob("documents/*.db")
        newest = max(files, key=lambda path: path.stat().st_ctime_ns)
        return sqlite3.connect(f"file:{newest}?mode=ro", uri=True, timeout=30)


class EmbeddingPeer(LlamaServer):
    """llama-server with the options of embedding models, otherwise as it is by default."""

    def command(self, model: Path) -> list[str]:
        """Without an option for the cache: the model has none."""
        return [
            *("nice", "-n", "10"),  # as ingle's processes, which lower their priority themselves
            *(str(shutil.which("llama-server")), "--model", str(model), "--embeddings"),
            *("--host", "127.0.0.1", "--port", str(self.port), "--log-disable"),
            *("--threads", str(self.settings.threads)),
            *("--threads-batch", str(self.settings.threads)),
        ]

    def describe(self) -> dict[str, object]:
        """Return the version and how it is asked."""
        return super().describe() | {
            "settings": {"threads": self.settings.threads, "others": "its defaults"},
            "path": f"/v1/embeddings, {AT_ONCE} texts each, {STREAMS} requests at once",
        }


class Embedding(Scenario):
    """Every passage of a folder gets a vector; tokens of the passages by seconds."""

    name = "embed"
    figures = (RATE, WORK)

    def __init__(self, folder: Path, texts: Sequence[list[int]]) -> None:
        super().__init__(Sizes(0, 0, 0, None))
        self._folder = folder
        self._texts = texts
        self.tokens = sum(map(len, texts))

    async def measure(self, server: Server, seed: int) -> Measured:
        """`seed` makes the texts new to ingle, which keeps vectors of the old ones."""
        assert server.process is not None
        if isinstance(server, DocumentServer):
            await asyncio.to_thread(self._read_anew, server, seed)
        before, begin = tree_usage(server.process.pid), time.perf_counter()
        if isinstance(server, DocumentServer):
            await asyncio.to_thread(server.wait_for_vectors)
        else:
            await self._by_requests(server)
        seconds = time.perf_counter() - begin
        used = spent(before, tree_usage(server.process.pid))
        work = sum(use.seconds for use in used.values())
        figures = {RATE.name: self.tokens / seconds, WORK.name: self.tokens / work}
        return Measured(figures, self.tokens, self.tokens, 0)

    def _read_anew(self, server: DocumentServer, seed: int) -> None:
        folder = self._folder.with_name(f"{self._folder.name}-{seed}")
        shutil.copytree(self._folder, folder)
        server.search(folder)

    async def _by_requests(self, server: Server) -> None:
        parts: Iterator[Sequence[list[int]]] = (
            self._texts[start : start + AT_ONCE] for start in range(0, len(self._texts), AT_ONCE)
        )

        async def send() -> None:
            for part in parts:
                await asyncio.to_thread(server.post, "/v1/embeddings", {"input": part})

        await asyncio.gather(*(send() for _ in range(STREAMS)))


def choose_pages(folder: Path, characters: int) -> None:
    """Copy pages of ingle's documentation into a folder, in the order of their names."""
    folder.mkdir()
    for page in sorted(DOCS.glob("*.md")):
        if characters > 0:
            shutil.copy(page, folder)
            characters -= len(page.read_text())


def passage_texts(server: DocumentServer) -> list[str]:
    """Return what the daemon embeds of the folder searched last."""
    with closing(server.index()) as index:
        found = index.execute("SELECT DISTINCT trim(title || char(10) || text) FROM passages")
        return [text for (text,) in found]


async def compare(arguments: argparse.Namespace, model: Path, place: Path) -> dict[str, Any]:
    """Measure one model on both servers."""
    settings = Settings(arguments.threads, slots=1, context=0)
    with ExitStack() as stack:
        ours, peer = DocumentServer(settings, place), EmbeddingPeer(settings, place)
        for server in (ours, peer):
            stack.callback(server.stop)
            server.start(model)
        pages = place / "pages"
        choose_pages(pages, arguments.characters)
        ours.search(pages)
        await asyncio.to_thread(ours.wait_for_vectors)
        texts = [
            peer.post("/tokenize", {"content": text, "add_special": True})["tokens"]
            for text in passage_texts(ours)
        ]
        # Both truncate at what the model reads.
        scenario = Embedding(pages, [tokens[: arguments.context] for tokens in texts])
        gate = IdleGate(arguments.max_foreign, arguments.patience)
        comparison = Comparison(ours, [peer], gate)
        await comparison.warm_up(scenario)
        (pairs,) = await comparison.run(scenario, arguments.rounds)
    print(f"{model.name}: {len(texts)} passages, {scenario.tokens} tokens")
    for figure in scenario.figures:
        ratio = pairs.ratio(figure)
        own = statistics.median(run.measured.figures[figure.name] for run, _ in pairs.counted())
        print(
            f"  ratio {ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f}), ingle {own:.0f}"
            f" {figure.unit}{' ~' if pairs.noisy else ''}"
        )
    return {
        "model": model.name,
        "passages": len(texts),
        "tokens": scenario.tokens,
        "servers": {server.name: server.describe() for server in (ours, peer)},
        "comparison": pairs.as_json(),
    }


def main() -> None:
    """Measure and print; with --save write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file of an embedding model")
    parser.add_argument("--characters", type=int, default=150_000, help="of documents, at least")
    parser.add_argument("--context", type=int, default=512, help="tokens that each model reads")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=psutil.cpu_count(logical=False) or 1)
    parser.add_argument("--max-foreign", type=float, default=0.05, metavar="SHARE")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for quiet")
    parser.add_argument("--save", action="store_true", help="write JSON to results/")
    arguments = parser.parse_args()
    model: Path = arguments.model.resolve()
    with tempfile.TemporaryDirectory() as place:
        result = asyncio.run(compare(arguments, model, Path(place)))
    if arguments.save:
        print(save(f"embedding-{model.stem}", result))


if __name__ == "__main__":
    main()
