"""Results of compaction by round, for one chat and for all chats."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from compaction_cases.probing import Score


@dataclass
class Cost:
    """One compaction: tokens, seconds, and the wait for the next first token."""

    before: int = 0
    after: int = 0
    written: int = 0
    computed: int = 0
    reused: int = 0
    seconds: float = 0.0
    warm_up_seconds: float = 0.0
    first_token_before: float = 0.0
    first_token_after: float = 0.0
    undo_is_exact: bool = False
    refused: str = ""
    summary: str = ""


@dataclass
class Round:
    """What was kept after one more compaction, by view; `surprise` in nats per token."""

    number: int
    scores: dict[str, Score] = field(default_factory=dict[str, Score])
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    surprise: dict[str, float] = field(default_factory=dict[str, float])
    cost: Cost = field(default_factory=Cost)

    @property
    def share(self) -> float:
        """The compacted chat's tokens as a share of all."""
        full = self.tokens.get("full", 0)
        return self.tokens.get("compacted", 0) / full if full else 0.0


def by_number(cases: Sequence[Sequence[Round]]) -> dict[int, list[Round]]:
    """The rounds of all chats with questions in them, by their number."""
    found: dict[int, list[Round]] = {}
    for done in (done for case in cases for done in case if done.scores):
        found.setdefault(done.number, []).append(done)
    return found


def pooled(rounds: Iterable[Round], view: str) -> Score:
    """The questions of several chats about one view."""
    score = Score()
    for done in rounds:
        if view in done.scores:
            score.add(done.scores[view])
    return score


def retention(rounds: Sequence[Round], view: str) -> float:
    """Right answers as a share of those with the whole chat at hand."""
    full = pooled(rounds, "full").accuracy
    return pooled(rounds, view).accuracy / full if full else 0.0


def summary(cases: Sequence[Sequence[Round]], views: Sequence[str]) -> dict[str, object]:
    """All figures in the form of a result file."""
    return {
        "rounds": {
            str(number): {view: _of_view(rounds, view) for view in views if _asked(rounds, view)}
            for number, rounds in by_number(cases).items()
        },
        "cost": _cost([done.cost for case in cases for done in case]),
        "chats": [[asdict(done) for done in case] for case in cases],
    }


def _asked(rounds: Sequence[Round], view: str) -> bool:
    return any(view in done.scores for done in rounds)


def _of_view(rounds: Sequence[Round], view: str) -> dict[str, object]:
    score = pooled(rounds, view)
    surprise = [done.surprise[view] for done in rounds if view in done.surprise]
    return {
        "tokens": round(statistics.mean(done.tokens.get(view, 0) for done in rounds)),
        "right": score.right,
        "asked": score.asked,
        "retention": round(retention(rounds, view), 3) if _asked(rounds, "full") else None,
        "stale": [score.stale, score.corrected],
        "false_memories": [score.false_memories, score.never_said],
        "by_kind": {kind: list(counts) for kind, counts in score.kinds.items()},
        "nats_a_token": round(statistics.mean(surprise), 3) if surprise else None,
    }


def _cost(costs: Sequence[Cost]) -> dict[str, object]:
    made = [cost for cost in costs if cost.after]
    refused = sum(bool(cost.refused) for cost in costs)
    if not made:
        return {"refused": refused}

    def mean(name: str) -> float:
        return round(statistics.mean(getattr(cost, name) for cost in made), 3)

    names = ("before", "after", "written", "computed", "reused", "seconds", "warm_up_seconds")
    return {
        "refused": refused,
        **{name: mean(name) for name in names},
        "first_token_before": mean("first_token_before"),
        "first_token_after": mean("first_token_after"),
        "undo_is_exact": all(cost.undo_is_exact for cost in made),
    }


def table(cases: Sequence[Sequence[Round]], views: Sequence[str]) -> str:
    """The figures for people."""
    lines = ["after  view           tokens  right    retention  stale  false  nats a token"]
    for number, rounds in by_number(cases).items():
        for view in (view for view in views if _asked(rounds, view)):
            score = pooled(rounds, view)
            surprise = [done.surprise[view] for done in rounds if view in done.surprise]
            nats = f"{statistics.mean(surprise):12.3f}" if surprise else ""
            tokens = statistics.mean(done.tokens.get(view, 0) for done in rounds)
            lines.append(
                f"{number:5}  {view:13} {tokens:7.0f}  {score.right:3}/{score.asked:<3}  "
                f"{retention(rounds, view):9.2f}  {score.stale:2}/{score.corrected:<2}  "
                f"{score.false_memories:2}/{score.never_said:<2}  {nats}"
            )
    cost = _cost([done.cost for case in cases for done in case])
    lines += ["", *(f"{name.replace('_', ' '):20} {value}" for name, value in cost.items())]
    return "\n".join(lines)


def gates(cases: Sequence[Sequence[Round]]) -> list[str]:
    """Promises that do not hold, as sentences."""
    broken: list[str] = []
    found = by_number(cases)
    for number, least in ((1, 0.9), (3, 0.8)):
        rounds = found.get(number)
        if rounds is None:
            continue
        if _asked(rounds, "full") and retention(rounds, "compacted") < least:
            broken.append(f"retention after {number} is below {least}")
        for other in ("cut off", "plain summary"):
            if any(other in done.scores for done in rounds) and (
                pooled(rounds, other).accuracy >= pooled(rounds, "compacted").accuracy
            ):
                broken.append(f"after {number}, {other} keeps as much")
        if any(done.share > 0.26 for done in rounds):
            broken.append(f"after {number}, more than a quarter of the tokens is left")
    score = pooled((done for rounds in found.values() for done in rounds), "compacted")
    if score.corrected and score.stale / score.corrected > 0.02:
        broken.append(f"{score.stale} of {score.corrected} corrected facts are stale")
    costs = [done.cost for case in cases for done in case if done.cost.after]
    if not all(cost.undo_is_exact for cost in costs):
        broken.append("undoing does not give the same request")
    if costs and statistics.mean(c.first_token_after - c.first_token_before for c in costs) > 0.05:
        broken.append("the next first token is slower")
    return broken
