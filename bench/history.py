"""How fast chats are found, opened and listed in a history of 100,000 messages."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import save

from ingle.tui.chats.chat import ChatSettings
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.database import row_writes
from ingle.tui.history.history_store import HistoryStore, open_history

MESSAGES_IN_A_CHAT = 50
PIECES = 20
WORDS = (25, 110)
"""About how many words a prompt and an answer have."""
QUERIES = (
    "k",
    "ky",
    "kyo",
    "kyoto",
    "kyoto w",
    "kyoto wheelchair",
    "the",
    "th",
    "a",
    "the of",
    "the of and",
    "w1 w2",
    "w300",
    '"w5 w6"',
    "京都",
    "京",
    "model:model-3 the",
    "folder:work w40",
    "is:pinned the",
    "after:2026-01-01 the",
    "before:2024-06-01 the",
    "nothinglikethis",
    "café",
)


class Writer:
    """Generates text whose word frequencies resemble a language's."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        common = ["the", "of", "and", "to", "a", "in", "is", "you", "that", "it"]
        self._words = common + [f"w{number}" for number in range(30_000)]
        total = 0.0
        self._weights: list[float] = []
        for rank in range(len(self._words)):
            total += 1 / (rank + 2.7)
            self._weights.append(total)

    def text(self, about: int) -> str:
        count = max(3, int(self._random.gauss(about, about / 3)))
        words = self._random.choices(self._words, cum_weights=self._weights, k=count)
        if self._random.random() < 0.005:
            words += ["Kyoto", "with", "a", "wheelchair", "京都の車椅子", "café"]
        return " ".join(words)


def fill(store: HistoryStore, messages: int) -> float:
    """Write so many messages, in chats spread over three years; returns the seconds it took."""
    writer, chance = Writer(1), random.Random(2)
    connection = store.database.connect()
    began = time.perf_counter()
    count = messages // MESSAGES_IN_A_CHAT
    for number in range(count):
        created = time.time() - (count - number) * 3 * 365 * 86400 / count
        settings = ChatSettings(
            title=f"Chat {number}" if chance.random() < 0.2 else "",
            model=f"model-{number % 7}",
            folder="work" if number % 10 == 0 else "",
            pinned=number % 100 == 0,
        )
        connection.execute("BEGIN")
        chat = f"chat{number}"
        row_writes.add_chat(connection, chat, created, row_writes.storable_json(settings))
        write_messages(connection, writer, chat, created, MESSAGES_IN_A_CHAT, settings.model or "")
        connection.execute("COMMIT")
    connection.close()
    return time.perf_counter() - began


def write_messages(
    connection: Any, writer: Writer, chat: str, created: float, count: int, model: str
) -> None:
    """Prompts and answers in turn, the answers in pieces as they come from a model."""
    parent: str | None = None
    for place in range(count):
        message = Message(
            role="assistant" if place % 2 else "user", parent=parent, created=created + place * 60
        )
        text = writer.text(WORDS[place % 2])
        if place % 2:
            message.model = model
        else:
            message.content = text
        row_writes.add_message(connection, chat, message, 0)
        if place % 2:
            step = max(1, len(text) // PIECES)
            for start in range(0, len(text), step):
                row_writes.add_piece(connection, message.id, text[start : start + step], "")
            facts = MessageFacts(completion_tokens=100, decode_seconds=2.0, first_token=0.2)
            row_writes.add_ending(
                connection, message.id, "answered", row_writes.storable_json(facts)
            )
        parent = message.id


def timed(run: Callable[[], object], times: int) -> dict[str, float]:
    """Milliseconds of so many runs, and of processor time, which others' work does not stretch."""
    taken: list[float] = []
    worked: list[float] = []
    for _ in range(times):
        began, busy = time.perf_counter(), time.thread_time()
        run()
        taken.append(1000 * (time.perf_counter() - began))
        worked.append(1000 * (time.thread_time() - busy))
    return {
        "median_ms": round(statistics.median(taken), 2),
        "max_ms": round(max(taken), 2),
        "cpu_ms": round(statistics.median(worked), 2),
    }


def measure(folder: Path, messages: int, times: int) -> dict[str, Any]:
    """Fill a history under `folder`, and ask it everything."""
    store = open_history(folder, print)
    result: dict[str, Any] = {"messages": messages, "fill_seconds": round(fill(store, messages), 1)}
    connection = store.database.connect()
    connection.execute("BEGIN")
    row_writes.add_chat(connection, "long", time.time(), row_writes.storable_json(ChatSettings()))
    write_messages(connection, Writer(3), "long", time.time(), 5000, "model-1")
    connection.execute("COMMIT")
    connection.close()
    store.close()
    store = open_history(folder, print)
    result["bytes"] = sum(path.stat().st_size for path in folder.iterdir())
    began = time.perf_counter()
    store.search("kyoto")
    result["first_search_ms"] = round(1000 * (time.perf_counter() - began), 2)
    result["search"] = {
        query: {"hits": len(store.search(query))} | timed(lambda q=query: store.search(q), times)
        for query in QUERIES
    }
    for figure in ("median_ms", "max_ms", "cpu_ms"):
        result[f"slowest_search_{figure}"] = max(each[figure] for each in result["search"].values())
    result["load_5000_messages"] = timed(lambda: store.load("long"), times)
    result["load_50_messages"] = timed(lambda: store.load("chat7"), times)
    result["recent_200"] = timed(lambda: store.recent(200), times)
    result["recent_all"] = timed(lambda: store.recent(100_000), times)
    result["prompts_200"] = timed(lambda: store.prompts(200), times)
    result["model_speeds"] = timed(store.model_speeds, times)
    began = time.perf_counter()
    store.delete_chat("chat9")
    store.flush(60)
    result["delete_chat_ms"] = round(1000 * (time.perf_counter() - began), 1)
    store.close()
    result["delete_and_wipe_ms"] = round(1000 * (time.perf_counter() - began), 1)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--folder", type=Path, help="keep the database there")
    parser.add_argument("--save", action="store_true", help="write results/history.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options.folder or Path(folder) / "chats", options.messages, options.times)
    print(json.dumps(result, indent=2, ensure_ascii=False))
    if options.save:
        print(save("history", result))


if __name__ == "__main__":
    main()
