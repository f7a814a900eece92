"""Make `english.onnx` and its tokens, which judge English passages that the networks do not surely.

    scripts/train-english MODEL COLLECTED [--into FOLDER]

MODEL is a folder of all-MiniLM-L6-v2 (Apache-2.0), COLLECTED that of `public_texts.py`,
`everyday_texts.py` and `labelled_texts.py`. The first layers of the encoder stay as they are; on
the mean and maximum of what they make of a text, a head learns from some 3,500 English texts.
Word vectors are kept in fewer columns of 4 bits, without words that are not ASCII; weights of the
layers in 8 bits. The head learns from what these give.
"""

# Neither onnx, which only this group has, nor what torch and transformers return is known to
# their types.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from passage_architecture import PackedVectors
from prompt_corpus import all_prompts
from public_texts import SEED
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from train_passages import DATA
from transformers import BertModel

from ingle.daemon.routing.detectors.natural_language.english_network import (
    LENGTH,
    NETWORK,
    TOKENS,
    encoded,
)

LAYERS, COLUMNS = 3, 96
HEAD, EPOCHS, RATE = 128, 20, 1e-3
MOST = {"prompts": 500, "tatoeba": 450, "everyday": 450, "xliuhw/NLU-Evaluation-Data": 350}
MOST_ELSEWHERE = 220
"""Texts of a source and verdict that are learnt from."""


class EnglishArchitecture(nn.Module):
    """From token ids to what the head reads or, with one, to the log-odds of private."""

    def __init__(self, model: BertModel, kept: Sequence[int]) -> None:
        """`kept`: the tokens that stay, in their new order."""
        super().__init__()
        words = model.embeddings.word_embeddings.weight.data[list(kept)]
        directions = torch.linalg.eigh(words.T @ words)[1][:, -COLUMNS:].contiguous()
        self.vectors = PackedVectors(words @ directions)
        self.up = nn.Linear(COLUMNS, words.shape[1], bias=False)
        self.up.weight.data = directions
        types = model.embeddings.token_type_embeddings.weight.data[0]
        self.pos = nn.Parameter(model.embeddings.position_embeddings.weight.data[:LENGTH] + types)
        self.norm = model.embeddings.LayerNorm
        self.layers = model.encoder.layer[:LAYERS]
        self.head: nn.Module = nn.Identity()

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return [texts, 2 * width] without a head, else [texts]."""
        x = self.norm(self.up(self.vectors(ids)) + self.pos[: ids.shape[1]])
        bias = (~mask[:, None, None, :]).float() * -1e4
        for layer in self.layers:
            made = layer(x, attention_mask=bias)
            x = made[0] if isinstance(made, tuple) else made
        shown = mask[..., None].float()
        mean = (x * shown).sum(1) / shown.sum(1)
        read = self.head(torch.cat([mean, (x + (shown - 1) * 1e4).amax(1)], 1))
        return read if isinstance(self.head, nn.Identity) else read[:, 0]


def tokens_to_keep(tokens: Tokenizer) -> tuple[list[int], Tokenizer]:
    """Return the tokens that stay, and a tokenizer that numbers them by their place."""
    parts = json.loads(tokens.to_str())
    words: dict[str, int] = parts["model"]["vocab"]
    stay = [one for one in sorted(words, key=words.__getitem__) if one.isascii()]
    stay = [one for one in stay if not one.startswith("[unused")]
    number = {word: at for at, word in enumerate(stay)}
    parts["model"]["vocab"] = number
    parts["padding"] = parts["truncation"] = None
    for one in parts["added_tokens"]:
        one["id"] = number[one["content"]]
    for name, one in parts["post_processor"].get("special_tokens", {}).items():
        one["ids"] = [number[name]]
    return [words[one] for one in stay], Tokenizer.from_str(json.dumps(parts))


def export(network: EnglishArchitecture, path: Path) -> None:
    """Write it as ONNX with weights of 8 bits."""
    sizes = {0: "texts", 1: "tokens"}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        whole = Path(folder) / "whole.onnx"
        torch.onnx.export(
            network.eval(),
            (torch.zeros(2, 20, dtype=torch.long), torch.ones(2, 20, dtype=torch.bool)),
            str(whole),
            input_names=["ids", "mask"],
            output_names=["read"],
            dynamic_axes={"ids": sizes, "mask": sizes, "read": {0: "texts"}},
            opset_version=17,
            dynamo=False,
        )
        quantize_dynamic(
            whole,
            path,
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
            per_channel=True,
        )


def read_with(path: Path, tokens: Tokenizer, texts: Sequence[str]) -> Tensor:
    """Return what a network without a head makes of texts, [texts, 2 * width]."""
    session = onnxruntime.InferenceSession(path)
    rows = [encoded(tokens, text) for text in texts]
    order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
    made: dict[int, np.ndarray] = {}
    for first in range(0, len(order), 16):
        part = order[first : first + 16]
        ids = np.zeros((len(part), len(rows[part[-1]])), np.int64)
        mask = np.zeros(ids.shape, np.bool_)
        for at, one in enumerate(part):
            ids[at, : len(rows[one])], mask[at, : len(rows[one])] = rows[one], True
        (found,) = session.run(None, {"ids": ids, "mask": mask})
        made.update(zip(part, np.asarray(found), strict=True))
    return torch.from_numpy(np.stack([made[at] for at in range(len(rows))]))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("collected", type=Path)
    parser.add_argument("--into", type=Path, default=DATA)
    options = parser.parse_args()
    kept, tokens = tokens_to_keep(Tokenizer.from_file(str(options.model / "tokenizer.json")))
    model = BertModel.from_pretrained(
        options.model, add_pooling_layer=False, attn_implementation="eager"
    )
    network = EnglishArchitecture(model.eval(), kept)
    path = options.into / NETWORK
    export(network, path)
    texts = texts_to_learn(options.collected)
    vectors = read_with(path, tokens, [text for text, _ in texts])
    network.head = learnt(vectors, torch.tensor([private for _, private in texts]))
    export(network, path)
    (options.into / TOKENS).write_bytes(gzip.compress(tokens.to_str().encode(), 9, mtime=0))
    print(f"learnt from {len(texts)} texts, {len(kept)} tokens, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
