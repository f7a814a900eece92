"""Whether a pretrained English encoder judges English prompts better than the networks shipped.

    export PYTHONPATH=bench:bench/privacy
    python bench/privacy/pretrained.py MODEL OTHERS COLLECTED [--pupa FILE] [--layers N]

MODEL is a folder of all-MiniLM-L6-v2 (Apache-2.0), OTHERS that of `others.py`, and COLLECTED that
of `public_texts.py`, `everyday_texts.py` and `labelled_texts.py`. The first N layers of the encoder
stay as they are; on the mean and maximum of what they make of a text, a head of 128 units learns
from some 3,500 English texts. Its log-odds are averaged with those of the networks. At a
threshold at which the sensitive sets lose as many texts as now, the harmless ones are compared.
Nothing is written but the table.
"""

# What torch and transformers return is not known to their types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from languages import own
from numpy.typing import NDArray
from others import LATER, SETS
from prompt_corpus import all_prompts
from public_texts import SEED
from tokenizers import Tokenizer
from topics import outside_sets, own_sets
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertModel

from ingle.daemon.routing.detectors.finding import Sensitivity, TextPart
from ingle.daemon.routing.detectors.natural_language.passage_detector import log_odds
from ingle.daemon.routing.detectors.natural_language.passage_network import PassageNetwork
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, structured_detectors
from ingle.daemon.routing.policy.policy import Policy

TOKENS = 96
"""Of a passage at most."""
HEAD, EPOCHS, RATE = 128, 20, 1e-3
MOST = {"prompts": 500, "tatoeba": 450, "everyday": 450, "xliuhw/NLU-Evaluation-Data": 350}
MOST_ELSEWHERE = 220
"""Texts of a source and verdict that are learnt from."""
CHOSEN = ("en, to therapists", "en, of patients", "en, requests", "en, instructions", "fresh")
"""Sets by which candidates were chosen; the others were measured a few times, no error read."""


class Judged(NamedTuple):
    """A text to judge: whether structured detectors keep it, and its passages with log-odds."""

    kept: bool
    passages: tuple[str, ...]
    odds: tuple[float, ...]


class Encoder:
    """The first layers of the encoder."""

    def __init__(self, folder: Path, layers: int) -> None:
        self._tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokens.no_padding()
        self._tokens.enable_truncation(TOKENS)
        self._model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
        self._model.encoder.layer = self._model.encoder.layer[:layers]

    @torch.inference_mode()
    def read(self, texts: Sequence[str]) -> Tensor:
        """Return the mean and the maximum of the tokens' vectors, [texts, 2 * width]."""
        rows = [one.ids for one in self._tokens.encode_batch(list(texts))]
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        made: dict[int, Tensor] = {}
        for at in range(0, len(order), 64):
            part = order[at : at + 64]
            ids = nn.utils.rnn.pad_sequence([torch.tensor(rows[one]) for one in part], True)
            mask = (ids != 0).float()
            with torch.autocast("cpu", torch.bfloat16):
                found = self._model(ids, attention_mask=mask).last_hidden_state.float()
            mean = (found * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            most = (found + (mask[..., None] - 1) * 1e4).amax(1)
            made.update(zip(part, torch.cat([mean, most], 1), strict=True))
        return torch.stack([made[number] for number in range(len(rows))])


def texts_to_learn(folder: Path) -> list[tuple[str, float]]:
    """English texts, and whether each is private."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for prompt in all_prompts(6, 100):
        if prompt.language == "en":
            groups.setdefault(("prompts", prompt.kind != "public"), []).append(prompt.text)
    for name in ("labelled", "everyday", "train"):
        for line in (folder / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["language"] == "en":
                source = row["source"] if name == "labelled" else name
                private = name == "labelled" and row["kind"] != "public"
                groups.setdefault((source, private), []).append(row["text"])
    draw = random.Random(SEED)
    return [
        (text, float(private))
        for (source, private), texts in groups.items()
        for text in draw.sample(texts, min(MOST.get(source, MOST_ELSEWHERE), len(texts)))
    ]


def learnt(vectors: Tensor, private: Tensor) -> nn.Module:
    """A head that was trained on these."""
    torch.manual_seed(0)
    mean, deviation = vectors.mean(0), vectors.std(0) + 1e-3
    first = nn.Linear(vectors.shape[1], HEAD)
    head = nn.Sequential(first, nn.GELU(), nn.Dropout(0.3), nn.Linear(HEAD, 1))
    optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=0.05)
    scaled = (vectors - mean) / deviation
    for _ in range(EPOCHS):
        for part in torch.randperm(len(scaled)).split(128):
            right = private[part]
            loss = functional.binary_cross_entropy_with_logits(
                head(scaled[part])[:, 0], 0.01 + 0.98 * right, 1 + 0.5 * right
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():  # the first layer takes the scale in
        first.bias.sub_(first.weight @ (mean / deviation))
        first.weight.div_(deviation)
    return head.eval()


def sets_to_judge(folder: Path, pupa: Path | None) -> dict[str, tuple[bool, list[str]]]:
    """English sets by name, and whether they are sensitive."""
    draw, found = random.Random(SEED), dict[str, tuple[bool, list[str]]]()
    for name, (sensitive, read) in (SETS | LATER).items():
        if name.startswith("en, "):
            texts = sorted({text for text in read(folder) if 8 <= len(text) <= 4000})
            found[name] = sensitive, draw.sample(texts, min(300, len(texts)))
    for kind in ("sensitive", "harmless"):
        for name in ("everyday", "later"):
            found[f"our own {name}, {kind}"] = kind == "sensitive", own(kind, name)["en"]
    for one in (*own_sets(), *outside_sets(pupa, None, None)):
        if one.name in ("fresh", "PUPA, held out"):
            texts = [text for group in one.groups for text in group]
            found[f"{one.name}, {'sensitive' if one.sensitive else 'harmless'}"] = (
                one.sensitive,
                texts,
            )
    return found


def judged(texts: Sequence[str], network: PassageNetwork) -> list[Judged]:
    """What there is to know of each text without the encoder."""
    scanner, policy = Scanner(structured_detectors(OwnWords())), Policy()
    found: list[Judged] = []
    for text in texts:
        decision = policy.decide(
            scanner.scan([TextPart("prompt", text)]), route=policy.routes["auto"]
        )
        kept = decision.sensitivity not in (Sensitivity.ALLOW, Sensitivity.MASK)
        passages = network.read(text)
        parts = tuple(text[one.start : one.end] for one in passages)
        found.append(Judged(kept, parts, tuple(log_odds(one.private) for one in passages)))
    return found


def margins(rows: Sequence[Judged], odds: Sequence[float]) -> NDArray[np.float64]:
    """How far each text is above its threshold; `odds` are those of all passages in order."""
    found: list[float] = []
    at = 0
    for row in rows:
        here = odds[at : at + len(row.passages)]
        at += len(row.passages)
        above = max(here, default=-99.0) - 0.8 * math.log(max(1, len(here)))
        found.append(99.0 if row.kept else above)
    return np.array(found)


def compare(
    now: dict[str, NDArray[np.float64]],
    new: dict[str, NDArray[np.float64]],
    sensitive: dict[str, bool],
) -> None:
    """Print both tables, each with a threshold of its own for equally many that leave."""
    for title, chosen in (("chosen by", True), ("not chosen by", False)):
        names = [name for name in now if name.startswith((*CHOSEN, "our own everyday")) == chosen]
        private = [name for name in names if sensitive[name]]

        def leave(threshold: float, private: Sequence[str] = private) -> float:
            return float(np.mean([(new[name] < threshold).mean() for name in private]))

        wanted = float(np.mean([(now[name] < 0).mean() for name in private]))
        threshold = max(one for one in np.arange(-6, 6, 0.02) if leave(one) <= wanted)
        print(f"{title}: threshold {threshold:.2f}")
        for name in names:
            rates = ((now[name] < 0).mean(), (new[name] < threshold).mean())
            shown = rates if sensitive[name] else [1 - rate for rate in rates]
            what = "leave" if sensitive[name] else "kept"
            print(f"  {name:30} {len(now[name]):4} {what:5} {shown[0]:6.1%} {shown[1]:6.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("others", type=Path)
    parser.add_argument("collected", type=Path)
    parser.add_argument("--pupa", type=Path)
    parser.add_argument("--layers", type=int, default=3)
    options = parser.parse_args()
    encoder = Encoder(options.model, options.layers)
    texts = texts_to_learn(options.collected)
    vectors = encoder.read([text for text, _ in texts])
    head = learnt(vectors.clone(), torch.tensor([private for _, private in texts]))
    print(f"learnt from {len(texts)} texts", flush=True)
    network = PassageNetwork()
    now: dict[str, NDArray[np.float64]] = {}
    new: dict[str, NDArray[np.float64]] = {}
    sensitive: dict[str, bool] = {}
    for name, (is_sensitive, prompts) in sets_to_judge(options.others, options.pupa).items():
        rows = judged(prompts, network)
        read = encoder.read([passage for row in rows for passage in row.passages])
        with torch.no_grad():
            own_odds = head(read.clone())[:, 0].tolist()
        odds = [one for row in rows for one in row.odds]
        both = [(one + other) / 2 for one, other in zip(odds, own_odds, strict=True)]
        sensitive[name] = is_sensitive
        now[name], new[name] = margins(rows, odds), margins(rows, both)
        print(f"{name}: {len(rows)}", flush=True)
    compare(now, new, sensitive)


if __name__ == "__main__":
    main()
