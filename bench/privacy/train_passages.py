"""Make `passages.onnx` and its tokens, which judge the passages of a text.

    scripts/train-judge MODEL.gguf FOLDER [--gsm8k FILE] [--pupa FILE] [--further NETWORK]
        --into FOLDER

Learns from the prompts of `corpora/prompts`, the older grammars `train.*`, and texts which
`public_texts.py`, `everyday_texts.py` and `labelled_texts.py` collect in FOLDER if they are not
there; word problems of GSM8K's training half (MIT) and prompts of PUPA's development half are
taken if given. The vectors of tokens are a learnt
projection of the input embeddings of MODEL, a GGUF file of Qwen2.5 (Apache-2.0), whose tokenizer is
used too. Takes about ten minutes on two free cores.
"""

# What torch and transformers return is not known to their types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import everyday_texts
import gguf
import labelled_texts
import numpy as np
import public_texts
import torch
from fillers import for_training
from grammar import Grammar
from passage_architecture import ByteVectors, PassageArchitecture, ShippedPassages
from prompt_corpus import Prompt, all_prompts
from prompt_fillers import Fillers
from token_vectors import FixedVectors, Projection, trained_weights
from tokenizers import Encoding, Tokenizer
from topics import is_held_out
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer

from ingle.daemon.routing.detectors.natural_language.passage_network import (
    KINDS,
    LENGTH,
    NETWORK,
    TAGS,
    TOKENS,
)

DATA = Path(__file__).resolve().parents[2] / "daemon" / "routing" / "detectors" / "data"
EPOCHS = 4
BATCH = 48
RATE = 1.5e-3
EVERYDAY = {"ar": 1000, "hi": 1000, "ko": 1000}  # and of other languages, an epoch:
EVERYDAY_ELSEWHERE = 350
LABELLED = {"xliuhw/NLU-Evaluation-Data": 1000}  # and of other sources:
LABELLED_ELSEWHERE = 500  # texts of a language and kind, an epoch
EACH = 14  # prompts of a line, made anew for each epoch
PUBLIC, OLDER, PROBLEMS = 10_000, 2_500, 600  # texts an epoch
LONGER = 0.3  # share of texts that stand beside a part of a public one
NOISE = 0.08  # share of tokens that are replaced: no single word may carry a verdict
PLAIN_TOKENS = 0.25  # the weight of a token without a tag
FURTHER_EPOCHS, FURTHER_RATE, FURTHER_SHARE = (
    1,
    6e-4,
    0.2,
)  # with `--further`; share of old texts but everyday ones
VOCABULARY = 151_936
UNLABELLED = -100
_REMOVED = re.compile(r"<PRESIDIO_ANONYMIZED_(\w+)>")
_FILLED = {
    "PERSON": ("first", "last"),
    "EMAIL_ADDRESS": ("email",),
    "PHONE_NUMBER": ("phone",),
    "URL": ("user",),
}
"""Slots for what PUPA's authors removed."""


class Row(NamedTuple):
    """The tokens of a text, a tag for each, and its kind: `public`, or ``""`` if it is unknown."""

    ids: list[int]
    tags: list[int]
    kind: str


def embeddings_of(model: Path) -> Tensor:
    """The input embeddings, (tokens, width) float16, centred and scaled to a deviation of 1."""
    found = next(t for t in gguf.GGUFReader(model).tensors if t.name == "token_embd.weight")
    table = torch.from_numpy(gguf.dequantize(found.data, found.tensor_type).astype(np.float32))
    table -= table.mean(0)
    return (table / table.std()).half()


def tokenizer_of(model: Path) -> Tokenizer:
    """The tokenizer in a GGUF file."""
    made = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
    with tempfile.TemporaryDirectory() as folder:
        made.backend_tokenizer.save(f"{folder}/tokens.json")
        return Tokenizer.from_file(f"{folder}/tokens.json")


class Corpus:
    """All texts to learn from; `rows` draws those of an epoch."""

    def __init__(self, tokenizer: Tokenizer, options: argparse.Namespace) -> None:
        folder: Path = options.folder
        problems: Path | None = options.gsm8k
        self._share = FURTHER_SHARE if options.further else 1.0
        self._tokenizer = tokenizer
        public = folder / "train.jsonl"
        if not public.exists():
            public_texts.collect(folder)
        self._public = [json.loads(line)["text"] for line in public.read_text().splitlines()]
        self._everyday = self._by_language(folder)
        self._older = {
            kind: [text for _, text in Grammar.load(f"train.{kind}").prompts(6, 9, for_training(9))]
            for kind in ("harmless", "sensitive")
        }
        self._labelled_texts = _labelled_texts(folder)
        lines = problems.read_text().splitlines() if problems else []
        self._problems = [json.loads(line)["question"] for line in lines]
        self._revealing = _revealing(options.pupa)

    @staticmethod
    def _by_language(folder: Path) -> dict[str, list[str]]:
        file = folder / "everyday.jsonl"
        if not file.exists():
            everyday_texts.collect(folder)
        texts: dict[str, list[str]] = {}
        for line in file.read_text().splitlines():
            row = json.loads(line)
            texts.setdefault(row["language"], []).append(row["text"])
        return texts

    def rows(self, epoch: int) -> list[Row]:
        """Return the texts of an epoch, cut to `LENGTH` tokens."""
        draw = random.Random(epoch)
        made = self._labelled(all_prompts(round(self._share * EACH), 100 + epoch))
        harmless = [row for row in made if row.kind == "public"]
        harmless += self._plain(
            self._some(draw, self._older["harmless"], self._share * OLDER), "public"
        )
        harmless += self._plain(self._some(draw, self._problems, self._share * PROBLEMS), "public")
        private = [row for row in made if row.kind != "public"]
        private += self._plain(self._some(draw, self._older["sensitive"], self._share * OLDER), "")
        everyday = [
            text
            for language, texts in self._everyday.items()
            for text in self._some(draw, texts, EVERYDAY.get(language, EVERYDAY_ELSEWHERE))
        ]
        harmless += self._plain(everyday, "public")
        for (_, source, kind), texts in self._labelled_texts.items():
            most = LABELLED.get(source, LABELLED_ELSEWHERE)
            rows = self._plain(self._some(draw, texts, most), kind)
            (harmless if kind == "public" else private).extend(rows)
        fill = Fillers("en", epoch)
        revealing = [
            _REMOVED.sub(lambda match: " ".join(map(fill, _FILLED[match[1]])), text)
            for text in self._revealing
        ]
        private += self._plain(revealing, "")
        public = self._plain(self._some(draw, self._public, self._share * PUBLIC), "public", tag=0)
        around = (public, harmless)
        rows = (_beside(row, around, draw) for row in (*harmless, *private, *public))
        return [_cut(row, draw) for row in rows if row.ids]

    @staticmethod
    def _some(draw: random.Random, texts: Sequence[str], most: float) -> list[str]:
        return draw.sample(texts, min(round(most), len(texts)))

    def _plain(self, texts: Sequence[str], kind: str, *, tag: int = UNLABELLED) -> list[Row]:
        encoded = self._tokenizer.encode_batch(list(texts))
        return [Row(one.ids, [tag] * len(one.ids), kind) for one in encoded]

    def _labelled(self, prompts: Sequence[Prompt]) -> list[Row]:
        encoded = self._tokenizer.encode_batch([prompt.text for prompt in prompts])
        return [
            Row(one.ids, _tags(prompt, one), prompt.kind)
            for prompt, one in zip(prompts, encoded, strict=True)
        ]


def _labelled_texts(folder: Path) -> dict[tuple[str, str, str], list[str]]:
    file = folder / "labelled.jsonl"
    if not file.exists():
        labelled_texts.collect(folder)
    texts: dict[tuple[str, str, str], list[str]] = {}
    for line in file.read_text().splitlines():
        row = json.loads(line)
        texts.setdefault((row["language"], row["source"], row["kind"]), []).append(row["text"])
    return texts


def _revealing(pupa: Sequence[Path]) -> list[str]:
    """Prompts of PUPA's development half."""
    csv.field_size_limit(2**24)
    found: set[str] = set()
    for path in pupa:
        with path.open(newline="") as file:
            found.update(row["user_query"] for row in csv.DictReader(file))
    return sorted(text for text in found if not is_held_out(text))


def _tags(prompt: Prompt, encoded: Encoding) -> list[int]:
    tags = [0] * len(encoded.ids)
    for span in prompt.spans:
        for number, (start, end) in enumerate(encoded.offsets):
            if start < span.end and end > span.start:
                tags[number] = TAGS.index(span.tag)
    return tags


def _beside(row: Row, others: Sequence[list[Row]], draw: random.Random) -> Row:
    """The row, or a longer one between parts of another, within `LENGTH` if it fits."""
    if draw.random() >= LONGER:
        return row
    other = draw.choice(draw.choice(others))
    size = min(draw.choice((10, 30, 60, LENGTH)), max(10, LENGTH - len(row.ids)))
    start = draw.randint(0, max(0, len(other.ids) - size))
    ids, tags = other.ids[start : start + size], other.tags[start : start + size]
    cut = draw.choice((0, len(ids) // 2, len(ids)))
    return Row(ids[:cut] + row.ids + ids[cut:], tags[:cut] + row.tags + tags[cut:], row.kind)


def _cut(row: Row, draw: random.Random) -> Row:
    """A public text may be cut anywhere; of others the beginning is kept."""
    spare = len(row.ids) - LENGTH
    start = draw.randint(0, spare) if row.kind == "public" and spare > 0 else 0
    return Row(row.ids[start : start + LENGTH], row.tags[start : start + LENGTH], row.kind)


class Trainer:
    """The network with its token vectors, and how they learn."""

    def __init__(self, vectors: Projection | FixedVectors, steps: int, rate: float) -> None:
        self._vectors = vectors
        self.network = PassageArchitecture(len(KINDS), len(TAGS))
        parameters = [*vectors.parameters(), *self.network.parameters()]
        self._parameters = parameters
        # Most tokens are part of nothing.
        self._rare = torch.tensor([PLAIN_TOKENS, *[1.0] * (len(TAGS) - 1)])
        self._optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
        self._rate = torch.optim.lr_scheduler.OneCycleLR(self._optimizer, rate, total_steps=steps)

    def learn(self, rows: Sequence[Row]) -> float:
        """Learn from a batch; return its loss."""
        ids, mask, tags = _padded(rows)
        noise = torch.rand(ids.shape) < NOISE
        ids = torch.where(noise, torch.randint(0, VOCABULARY, ids.shape), ids)
        private = torch.tensor([float(row.kind != "public") for row in rows])
        kinds = torch.tensor(
            [KINDS.index(row.kind) if row.kind in KINDS else UNLABELLED for row in rows]
        )
        logits, tagged = self.network(self._vectors(ids), mask)
        # Releasing a private text costs more than keeping a public one.
        weights = 1 + 0.5 * private
        verdict = functional.binary_cross_entropy_with_logits(
            logits[:, 0], 0.002 + 0.996 * private, weights
        )
        loss = verdict + 0.3 * _entropy(logits[:, 1:], kinds)
        loss = loss + _entropy(tagged.flatten(0, 1), tags.flatten(), self._rare)
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._parameters, 1.0)
        self._optimizer.step()
        self._rate.step()
        return loss.item()

    @torch.no_grad()
    def shipped(self) -> ShippedPassages:
        """Return the network with the vectors of all tokens."""
        return ShippedPassages(self.network, ByteVectors(self._vectors.all())).eval()


def _entropy(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    if not (labels != UNLABELLED).any():
        return torch.zeros(())
    return functional.cross_entropy(logits, labels, weights, ignore_index=UNLABELLED)


def _padded(rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    tags = torch.full((len(rows), longest), UNLABELLED)
    for number, row in enumerate(rows):
        count = len(row.ids)
        ids[number, :count] = torch.tensor(row.ids)
        mask[number, :count] = True
        tags[number, :count] = torch.tensor(row.tags)
    return ids, mask, tags


def _batches(rows: Sequence[Row], draw: random.Random) -> Iterator[list[Row]]:
    """Rows of like lengths together, in any order."""
    order = sorted(rows, key=lambda row: len(row.ids) + draw.random() * 12)
    batches = [order[at : at + BATCH] for at in range(0, len(order), BATCH)]
    draw.shuffle(batches)
    yield from batches


def export(shipped: ShippedPassages, path: Path) -> None:
    """Write the network as ONNX."""
    ids, mask = torch.zeros(2, 20, dtype=torch.long), torch.ones(2, 20, dtype=torch.bool)
    sizes = {0: "passages", 1: "tokens"}
    torch.onnx.export(
        shipped,
        (ids, mask),
        str(path),
        input_names=["ids", "mask"],
        output_names=["private", "kinds", "tags", "vectors"],
        dynamic_axes={
            **dict.fromkeys(("ids", "mask", "tags", "vectors"), sizes),
            **{key: {0: "passages"} for key in ("private", "kinds")},
        },
        opset_version=17,
        dynamo=False,
    )


def _trainer(options: argparse.Namespace, steps: int) -> Trainer:
    if not options.further:
        return Trainer(Projection(embeddings_of(options.model)), steps, RATE)
    weights = trained_weights(options.further)
    vectors = FixedVectors(weights.pop("vectors.table"), weights.pop("vectors.scale"))
    trainer = Trainer(vectors, steps, FURTHER_RATE)
    own = {name.removeprefix("network."): weight for name, weight in weights.items()}
    trainer.network.load_state_dict(own)
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gsm8k", type=Path)
    parser.add_argument("--pupa", type=Path, action="append", default=[])
    parser.add_argument("--further", type=Path, help="a network to go on with")
    parser.add_argument("--into", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = tokenizer_of(options.model)
    corpus = Corpus(tokenizer, options)
    options.into.mkdir(parents=True, exist_ok=True)
    epochs = FURTHER_EPOCHS if options.further else EPOCHS
    rows = corpus.rows(0)
    # Epochs differ a little in their number of rows.
    trainer = _trainer(options, epochs * (len(rows) // BATCH + 60))
    began = time.monotonic()
    for epoch in range(epochs):
        rows = rows if epoch == 0 else corpus.rows(epoch)
        losses: list[float] = []
        for batch in _batches(rows, random.Random(epoch)):
            losses.append(trainer.learn(batch))
            if len(losses) % 50 == 0:
                mean, seconds = sum(losses[-50:]) / 50, time.monotonic() - began
                done = f"epoch {epoch}, {len(losses)} of {len(rows) // BATCH}"
                print(f"{done}: loss {mean:.4f}, {seconds:.0f} s", file=sys.stderr)
    export(trainer.shipped(), options.into / NETWORK)
    (options.into / TOKENS).write_bytes(gzip.compress(tokenizer.to_str().encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
