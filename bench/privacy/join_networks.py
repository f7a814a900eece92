"""Make the two networks of the daemon, which read the same token vectors.

    PYTHONPATH=bench:bench/privacy python bench/privacy/join_networks.py FOLDER FIRST SECOND
        [--bias B] [--into FOLDER]

FIRST and SECOND are files that `train_passages.py` wrote. The vectors that they read are replaced
by fewer columns, from which what each of them makes of a token is had again with the least error
over the texts that were collected in FOLDER, in 4 bits; weights are kept in 16. B is
added to the average of their log-odds. If FIRST has 8-bit vectors that SECOND reads already, as
pairs had before (in the history of the shipped files), they are only made smaller.
"""

# What torch returns is not known to its types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from pathlib import Path

import torch
from passage_architecture import (
    WIDTH,
    PackedVectors,
    PassageArchitecture,
    SecondOpinion,
    ShippedPassages,
)
from token_vectors import halve, trained_weights
from tokenizers import Tokenizer
from torch import Tensor, nn
from train_passages import DATA, export

from ingle.daemon.routing.detectors.natural_language.passage_network import (
    KINDS,
    NETWORK,
    SECOND,
    TAGS,
    TOKENS,
)

COLUMNS = 88
TEXTS = ("everyday.jsonl", "labelled.jsonl")
RARE = 0.02
"""How often a token counts that no text has."""


def loaded(path: Path) -> tuple[PassageArchitecture, Tensor]:
    """A network, and what its first layer makes of tokens, without the bias: [tokens, WIDTH]."""
    network, vectors = read_network(path)
    return network.eval(), vectors @ network.inp.weight.T.detach()


def read_network(path: Path) -> tuple[PassageArchitecture, Tensor]:
    """A network, and the vectors that it reads: [tokens, VECTOR or, of a pair, COLUMNS]."""
    weights = {
        name.removeprefix("network.").removeprefix("vectors."): tensor
        for name, tensor in trained_weights(path).items()
    }
    vectors = weights.pop("table").float() * weights.pop("scale")
    network = PassageArchitecture(len(KINDS), len(TAGS))
    network.inp = nn.Linear(vectors.shape[1], WIDTH)
    network.load_state_dict(weights)
    return network, vectors


def pack(first: Path, second: Path, into: Path) -> None:
    """Write a pair that shares its vectors already with 4 bits for each of their numbers."""
    network, vectors = read_network(first)
    export(ShippedPassages(network, PackedVectors(vectors)).eval(), into / NETWORK)
    shutil.copyfile(second, into / SECOND)


def join(
    read: list[tuple[PassageArchitecture, Tensor]], folder: Path, bias: float, into: Path
) -> None:
    """Write a pair of networks, each with what its first layer makes of tokens."""
    made = torch.cat([vectors for _, vectors in read], 1)
    tokens = Tokenizer.from_buffer(gzip.decompress((DATA / TOKENS).read_bytes()))
    kept = columns(made, frequencies(folder, tokens, len(made)))
    for number, (network, _) in enumerate(read):
        layer = nn.Linear(COLUMNS, WIDTH)
        layer.weight.data = kept[number * WIDTH : (number + 1) * WIDTH].contiguous()
        layer.bias.data = network.inp.bias.data
        network.inp = layer
    (first, _), (second, _) = read
    export(ShippedPassages(first, PackedVectors(made @ kept)).eval(), into / NETWORK)
    # The average halves it.
    export_second(second, 2 * bias, into / SECOND)


def frequencies(folder: Path, tokens: Tokenizer, size: int) -> Tensor:
    """How often each token is in the texts."""
    counts = torch.full((size,), RARE)
    for name in TEXTS:
        texts = [json.loads(line)["text"] for line in (folder / name).read_text().splitlines()]
        for encoded in tokens.encode_batch(texts[::4]):
            ids = torch.tensor(encoded.ids, dtype=torch.long)
            counts.index_add_(0, ids, torch.ones(len(ids)))
    return counts


def columns(made: Tensor, weights: Tensor) -> Tensor:
    """The directions, [width, COLUMNS], that keep most of the rows, which count by `weights`."""
    covariance = (made * weights[:, None]).T @ made
    return torch.linalg.eigh(covariance)[1][:, -COLUMNS:]


def export_second(network: PassageArchitecture, bias: float, path: Path) -> None:
    """Write it as ONNX."""
    sizes = {0: "passages", 1: "tokens"}
    torch.onnx.export(
        SecondOpinion(network, bias).eval(),
        (torch.zeros(2, 20, COLUMNS), torch.ones(2, 20, dtype=torch.bool)),
        str(path),
        input_names=["vectors", "mask"],
        output_names=["log_odds"],
        dynamic_axes={"vectors": sizes, "mask": sizes, "log_odds": {0: "passages"}},
        opset_version=17,
        dynamo=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", type=Path, nargs=2)
    parser.add_argument("--bias", type=float, default=0.0)
    parser.add_argument("--into", type=Path, default=DATA)
    options = parser.parse_args()
    first, second = options.networks
    if read_network(first)[1].shape[1] == COLUMNS:
        pack(first, second, options.into)
    else:
        join([loaded(first), loaded(second)], options.folder, options.bias, options.into)
    for name in (NETWORK, SECOND):
        halve(options.into / name)


if __name__ == "__main__":
    main()
