"""Measures what compaction keeps and costs, beside truncation and a plain summary."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from compaction_cases.chat_maker import Fact, MadeChat, make_chat
from compaction_cases.probing import Messages, Prober
from compaction_cases.rounds import Cost, Round, gates, summary, table
from compaction_cases.slots import load_slots
from compaction_cases.surprise import Surprise
from compaction_cases.views import PlainSummary, add_turns, as_messages, cut_off
from compaction_cases.without_model import count_values, lines
from ingle_server import IngleServer
from machine import save
from server import Settings

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.context_view import request_messages, tail_messages
from ingle.tui.chats.message import CompactionRecord
from ingle.tui.compaction.compactor import Compactor
from ingle.tui.compaction.summary_notes import CompactionRefused

VIEWS = ("full", "compacted", "cut off", "plain summary")
RESTATED = "What were we talking about just now?"
"""The next question, whose time to first token is measured before and after."""


class Case:
    """One chat through its rounds."""

    def __init__(
        self,
        client: AsyncDaemonClient,
        model: str,
        made: MadeChat,
        views: Sequence[str],
        moved: Callable[[], object],
        *,
        beside: Sequence[int] = (),
        every: int = 1,
    ) -> None:
        self._client = client
        self._model = model
        self.made = made
        self._views = views
        self._moved = moved
        self._beside = beside
        self._facts = probed(made.facts, every)
        self._prober = Prober(client, model)
        self._plain = PlainSummary(self._prober)
        self._plain_from = 0
        self._full: Messages = []
        self.shown: list[tuple[Round, dict[str, Messages]]] = []
        self.done: list[Round] = []
        self.chat = Chat()

    async def run(self, rounds: Sequence[int], last: int) -> None:
        """Compact `last` times with new turns between; ask after the rounds named."""
        add_turns(self.chat, self.made.turns)
        self._full = as_messages(self.made.turns)
        for number in range(1, last + 1):
            if number > 1:
                turns = self.made.rounds[number - 2]
                add_turns(self.chat, turns)
                self._full += as_messages(turns)
            result = Round(number)
            self.done.append(result)
            await self._compact(result.cost)
            await self._compact_plainly(result)
            if number in rounds:
                await self._ask(result)

    async def _compact(self, cost: Cost) -> CompactionRecord | None:
        """The product's own compaction, with its costs."""
        before = request_messages(self.chat)
        question = {"role": "user", "content": RESTATED}
        cost.before = await self._prober.size(before)
        await self._prober.warm(before)
        asked = await self._prober.ask([*before, question], tokens=1, label=self.chat.label)
        cost.first_token_before = asked.first_token
        compactor = Compactor(self._client, self.chat, self._model)
        begin = time.perf_counter()
        try:
            compaction = await compactor.run()
        except CompactionRefused as refused:
            cost.refused = str(refused)
            return None
        cost.seconds = time.perf_counter() - begin
        last = compactor.progress
        cost.computed, cost.reused, cost.written = last.computed, last.reused, last.written
        cost.summary = compaction.summary
        cost.undo_is_exact = self._undoes(compaction, before)
        self.chat.add_compaction(compaction)
        view = request_messages(self.chat)
        begin = time.perf_counter()
        await self._prober.warm(view)
        cost.warm_up_seconds = time.perf_counter() - begin
        cost.after = await self._prober.size(view)
        asked = await self._prober.ask([*view, question], tokens=1, label=self.chat.label)
        cost.first_token_after = asked.first_token
        return compaction

    def _undoes(self, compaction: CompactionRecord, before: Messages) -> bool:
        """Whether undoing gives the same request, byte for byte."""
        self.chat.add_compaction(compaction)
        self.chat.undo_compaction(compaction.id)
        same = request_messages(self.chat) == before
        self.chat.undone.discard(compaction.id)
        del self.chat.compactions[compaction.id]
        return same

    async def _compact_plainly(self, result: Round) -> None:
        if "plain summary" not in self._views:
            return
        if self._beside and result.number > max(self._beside):
            return  # no question depends on it any more
        tail = len([m for m in tail_messages(self.chat, self.chat.compaction_chain()) if m.text])
        end = len(self._full) - tail
        view = request_messages(self.chat)
        budget = max(64, result.cost.after - _tokens_of(view[len(view) - tail :], view, result))
        await self._plain.compact(self._full[self._plain_from : end], self._full[end:], budget)
        self._plain_from = end

    async def _ask(self, result: Round) -> None:
        names = self._views if not self._beside or result.number in self._beside else ["compacted"]
        views = {name: list(await self._view(name, result)) for name in names}
        self.shown.append((result, views))
        result.tokens["full"] = await self._prober.size(self._full)
        for name, view in views.items():
            result.tokens[name] = await self._prober.size(view)
            result.scores[name] = await self._prober.score(view, self._facts, result.number)
            score = result.scores[name]
            print(
                f"  round {result.number} {name:13} {result.tokens[name]:5} tok  "
                f"{score.right}/{score.asked}  stale {score.stale}  "
                f"false {score.false_memories}",
                flush=True,
            )
            self._moved()

    async def _view(self, name: str, result: Round) -> Messages:
        if name == "full":
            return self._full
        if name == "compacted":
            return request_messages(self.chat)
        if name == "cut off":
            full = await self._prober.size(self._full)
            return cut_off(self._full, result.cost.after / full)
        return [*self._plain.head(), *self._full[self._plain_from :]]


def probed(facts: Sequence[Fact], every: int) -> list[Fact]:
    """Return all facts corrected or never stated, and every `every`-th of the others."""
    seen: Counter[str] = Counter()
    found: list[Fact] = []
    for fact in facts:
        if fact.kind in ("correction", "never said") or seen[fact.kind] % every == 0:
            found.append(fact)
        seen[fact.kind] += 1
    return found


def _tokens_of(part: Messages, view: Messages, result: Round) -> int:
    """About how many tokens a part of the compacted view has."""
    whole = sum(len(message["content"]) for message in view)
    return round(result.cost.after * sum(len(m["content"]) for m in part) / max(1, whole))


async def measure(arguments: argparse.Namespace, server: IngleServer) -> list[Case]:
    """All chats, one after the other."""
    client = AsyncDaemonClient(address=("127.0.0.1", server.port))
    slots = load_slots()
    half = slots.tune if arguments.tune else slots.report
    cases: list[Case] = []
    for seed in arguments.seeds:
        print(f"seed {seed}", flush=True)
        made = make_chat(seed, half, tokens=arguments.tokens)
        # Save the results so far in case a later part fails.
        case = Case(
            client,
            server.model_name(),
            made,
            arguments.views if len(cases) < arguments.compared else VIEWS[:2],
            lambda: save_cases(arguments, cases) if arguments.save else None,
            beside=arguments.beside,
            every=arguments.every,
        )
        cases.append(case)
        await case.run(arguments.rounds, max(arguments.rounds))
        if arguments.surprise:
            await asyncio.to_thread(add_surprise, case, arguments.model, arguments.threads)
        if arguments.show:
            show(case)
        if arguments.save:
            save_cases(arguments, cases)
    return cases


def show(case: Case) -> None:
    """Summaries and wrong answers, for tuning."""
    for done in case.done:
        print(done.cost, done.cost.summary, sep="\n")
        for name, score in done.scores.items():
            print(name, *score.wrong, sep="\n    ")


def add_surprise(case: Case, model: Path, threads: int) -> None:
    """Score the same answers after every view of the first round, in this process."""
    with Surprise(model, context=12288, threads=threads) as surprise:
        for result, views in case.shown[:1]:
            for name, view in views.items():
                result.surprise[name] = surprise.of(view, case.made.next_answers)


def save_cases(arguments: argparse.Namespace, cases: Sequence[Case]) -> Path:
    """Write the result file."""
    rounds = [case.done for case in cases]
    figures = summary(rounds, arguments.views) | {
        "model": arguments.model.name,
        "seeds": arguments.seeds[: len(cases)],
        "slots": "tune" if arguments.tune else "report",
        "tokens": arguments.tokens,
        "every": arguments.every,
        "does_not_hold": gates(rounds),
    }
    return save(f"compaction-{arguments.model.stem}", figures)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?", default=Path(), help="a GGUF file")
    parser.add_argument(
        "--without-model", action="store_true", help="only count which values are still sent"
    )
    parser.add_argument("--fresh", action="store_true", help="corrections worded when all was done")
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--views", nargs="+", default=list(VIEWS), choices=VIEWS)
    parser.add_argument(
        "--beside", type=int, nargs="+", default=[], help="ask the other views in these rounds only"
    )
    parser.add_argument(
        "--every", type=int, default=1, help="ask every so manieth question of a class only"
    )
    parser.add_argument(
        "--compared", type=int, default=99, help="ask the other views in so many chats only"
    )
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--tune", action="store_true", help="the slots that are not reported")
    parser.add_argument("--show", action="store_true", help="summaries and wrong answers")
    parser.add_argument("--surprise", action="store_true", help="negative log-likelihood as well")
    parser.add_argument("--long", action="store_true", help="five seeds, rounds 1, 2, 3 and 5")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args(argv)
    if arguments.model == Path() and not arguments.without_model:
        parser.error("name a GGUF file, or count --without-model")
    if arguments.long:
        arguments.seeds, arguments.rounds = [101, 102, 103, 104, 105], [1, 2, 3, 5]
        arguments.surprise = True
    return arguments


def main() -> None:
    """Start a daemon of our own, measure, print and save."""
    arguments = parse(sys.argv[1:])
    if arguments.without_model:
        slots = load_slots()
        half = slots.tune if arguments.tune else slots.report
        if arguments.fresh:
            half = tuple(msgspec.structs.replace(s, correct=s.fresh or s.correct) for s in half)
        chats = [make_chat(seed, half, tokens=arguments.tokens) for seed in arguments.seeds]
        print(*lines(asyncio.run(count_values(chats, max(arguments.rounds)))), sep="\n")
        return
    settings = Settings(threads=arguments.threads, slots=8, context=16384)
    with tempfile.TemporaryDirectory(prefix="ingle-bench-") as folder:
        server = IngleServer(settings, Path(folder))
        server.start(arguments.model.resolve())
        try:
            cases = asyncio.run(measure(arguments, server))
        finally:
            server.stop()
    rounds = [case.done for case in cases]
    print(table(rounds, arguments.views))
    print(*(f"does not hold: {sentence}" for sentence in gates(rounds)), sep="\n")


if __name__ == "__main__":
    main()
