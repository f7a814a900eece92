"""Make the weights of `PersonalClassifier` from the grammars `train`; calibrate them on `tune`.

Run it from the checkout: `python bench/privacy/train_classifier.py`. It takes some minutes,
and needs faker and numpy.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from fillers import for_training
from grammar import Grammar
from numpy.typing import NDArray

from ingle.daemon.routing.detectors.natural_language.annotated_text import TextAnnotator
from ingle.daemon.routing.detectors.natural_language.personal_classifier import (
    BITS,
    LinearWeights,
    best_passage,
    features_of,
    features_of_whole,
)

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "daemon" / "routing" / "detectors" / "data" / "personal.bin"
SEED = 9
EACH = 30
EPOCHS = 16
REGRESSIONS = 4  # whose weights are averaged to reduce chance effects
DROPPED = 0.3  # of a text's tokens: no single word may carry a verdict
JOINED = 4  # one longer text for so many prompts
DECAY = 1e-5
RATE = 0.15


def joined(
    made: Sequence[tuple[int, str]], harmless: Sequence[tuple[int, str]], count: int
) -> Iterator[str]:
    """Longer texts: one of the prompts among up to four harmless ones."""
    source = random.Random(SEED)
    for _ in range(count):
        texts = [text for _, text in source.sample(harmless, source.randint(1, 4))]
        texts.insert(source.randint(0, len(texts)), source.choice(made)[1])
        yield source.choice(("\n", " ", "\n\n")).join(texts)


class Examples:
    """Texts as concatenated features, with the start of each."""

    def __init__(self, name: str, each: int, reader: TextAnnotator) -> None:
        features: list[NDArray[np.uint32]] = []
        labels: list[float] = []
        weights: list[float] = []
        self.texts: list[str] = []
        self.whole: list[NDArray[np.uint32]] = []
        harmless: list[tuple[int, str]] = []
        for label, kind in ((0.0, "harmless"), (1.0, "sensitive")):
            grammar = Grammar.load(f"{name}.{kind}")
            made = list(grammar.prompts(each, SEED, for_training(SEED)))
            harmless = made if label == 0 else harmless
            made += [(-1, text) for text in joined(made, harmless, len(made) // JOINED)]
            prompts_of = Counter(line for line, _ in made)
            sizes = [prompts_of[line] ** -0.5 if line >= 0 else each**-0.5 for line, _ in made]
            total = sum(sizes)
            for (_, text), size in zip(made, sizes, strict=True):
                reading = reader.read(text)
                features.append(features_of(reading))
                self.whole.append(features_of_whole(reading))
                labels.append(label)
                # A line that has few prompts would else hardly count.
                weights.append(size / total)
                self.texts.append(text)
        self.features = features
        self.labels = np.array(labels, np.float32)
        self.weights = np.array(weights, np.float32) * len(weights) / 2


class Regression:
    """A logistic regression over hashed features, learnt by AdaGrad over small batches."""

    def __init__(self, seed: int) -> None:
        self.table = np.zeros(1 << BITS, np.float32)
        self.bias = 0.0
        self._seen = np.full(1 << BITS, 1e-3, np.float32)
        self._source = np.random.default_rng(seed)

    def learn(self, examples: Examples) -> None:
        """Go over all examples `EPOCHS` times."""
        for epoch in range(EPOCHS):
            order = self._source.permutation(len(examples.features))
            batches = np.array_split(order, max(1, len(order) // 64))
            wrong = sum(self._step(examples, [int(at) for at in batch]) for batch in batches)
            print(f"epoch {epoch}: mean error {wrong / len(order):.4f}", file=sys.stderr)

    def _step(self, examples: Examples, batch: list[int]) -> float:
        """Learn from these examples; returns the sum of their errors."""
        kept = [self._some_of(self._passage(examples.features[at])) for at in batch]
        whole = [self._some_of(examples.whole[at][None]) for at in batch]
        places = np.concatenate([one.ravel() for one in (*kept, *whole)]).astype(np.int64)
        owners = np.concatenate(
            [np.repeat(np.arange(len(batch)), [one.size for one in part]) for part in (kept, whole)]
        )
        tokens = np.array([max(1, one.shape[1]) for one in kept])
        values = (1 / np.sqrt(tokens))[owners].astype(np.float32)
        values[sum(one.size for one in kept) :] = 1.0
        scores = np.bincount(owners, self.table[places] * values, len(kept)) + self.bias
        chance = 1 / (1 + np.exp(-scores))
        error = (chance - examples.labels[batch]) * examples.weights[batch]
        slope = np.bincount(places, error[owners] * values, 1 << BITS).astype(np.float32)
        touched = np.unique(places)
        gradient = slope[touched] + DECAY * len(batch) * self.table[touched]
        self._seen[touched] += gradient**2
        self.table[touched] -= RATE * gradient / np.sqrt(self._seen[touched])
        self.bias -= 0.02 * float(error.sum()) / len(batch)
        return float(np.abs(error).sum())

    def _passage(self, features: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the most personal passage by the present weights, by which a text is judged."""
        if features.shape[1] == 0:
            return features
        _, start, end = best_passage(self.table[features].sum(axis=0))
        return features[:, start:end]

    def _some_of(self, features: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return features[:, self._source.random(features.shape[1]) > DROPPED]


def calibrate(scores: NDArray[np.float32], examples: Examples) -> tuple[float, float]:
    """Slope and shift of a logistic curve through the scores (Platt), with equal classes."""
    slope, shift = 1.0, 0.0
    for _ in range(4000):
        chance = 1 / (1 + np.exp(-(slope * scores + shift)))
        error = (chance - examples.labels) * examples.weights
        slope -= 0.02 * float((error * scores).mean())
        shift -= 0.02 * float(error.mean())
    return slope, shift


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=EACH, help="prompts of every line")
    options = parser.parse_args()
    random.seed(SEED)
    reader = TextAnnotator()
    examples = Examples("train", options.each, reader)
    print(f"{len(examples.features)} prompts to train on", file=sys.stderr)
    regressions = [Regression(SEED + number) for number in range(REGRESSIONS)]
    for regression in regressions:
        regression.learn(examples)
    table = np.asarray(sum(one.table for one in regressions) / REGRESSIONS, np.float32)
    bias = float(np.mean([one.bias for one in regressions]))
    tune = Examples("tune", 6, reader)
    weights = LinearWeights(LinearWeights.pack(table, bias, 1.0, 0.0))
    scores = np.array(
        [weights.score(*one) for one in zip(tune.features, tune.whole, strict=True)], np.float32
    )
    slope, shift = calibrate(scores, tune)
    right = (slope * scores + shift > 0) == (tune.labels > 0.5)
    for text, one in zip(tune.texts, right, strict=True):
        if not one:
            print(f"wrong: {text!r}", file=sys.stderr)
    print(f"tune: {right.mean():.3f} of {len(right)}, slope {slope:.2f}, shift {shift:.2f}")
    TARGET.write_bytes(LinearWeights.pack(table, bias, slope, shift))


if __name__ == "__main__":
    main()
