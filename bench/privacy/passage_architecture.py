"""The network that judges passages: token vectors, a convolution, attention, and two heads.

The vectors of tokens are a projection, learnt here, of the frozen input embeddings of a language
model: words that no training text has are then near those that mean the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

LENGTH = 128
"""Tokens of a passage at most."""

VECTOR, WIDTH, LAYERS, HEADS = 64, 160, 2, 4


class Layer(nn.Module):
    """Attention and a feed-forward layer, each behind a norm."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.linear1, self.linear2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """`x`: [passages, tokens, WIDTH]; `bias`: [passages, 1, 1, tokens], added to scores."""
        passages, tokens, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(passages, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + bias
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(passages, tokens, WIDTH)
        x = x + self.dropout(self.out(mixed))
        hidden = functional.gelu(self.linear1(self.norm2(x)))
        return x + self.dropout(self.linear2(self.dropout(hidden)))


class PassageArchitecture(nn.Module):
    """From token vectors to the scores of passages and tokens."""

    def __init__(self, kinds: int, tags: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.inp = nn.Linear(VECTOR, WIDTH)
        self.pos = nn.Embedding(LENGTH, WIDTH)
        nn.init.normal_(self.pos.weight, std=0.02)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.att = nn.Linear(WIDTH, 1)
        self.head = nn.Linear(2 * WIDTH, 1 + kinds)
        self.tag = nn.Linear(WIDTH, tags)
        self.dropout = nn.Dropout(dropout)

    def forward(self, vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of passages [passages, 1 + kinds] and of tokens [passages, tokens, tags].

        `vectors`: [passages, tokens, VECTOR]; `mask`: [passages, tokens], False for padding.
        """
        x = self.dropout(self.inp(vectors) + self.pos.weight[: vectors.shape[1]])
        near = self.conv((x * mask[..., None]).transpose(1, 2)).transpose(1, 2)
        x = x + functional.gelu(near)
        bias = (~mask[:, None, None, :]).float() * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        x = self.norm(x)
        hidden = (~mask).float() * -1e4
        weights = (self.att(x)[..., 0] + hidden).softmax(-1)
        mean = (x * weights[..., None]).sum(1)
        most = (x + hidden[..., None]).amax(1)
        return self.head(torch.cat([mean, most], -1)), self.tag(x)


class PackedVectors(nn.Module):
    """Token vectors in 4 bits, two columns in a byte, with a scale for each row and column."""

    def __init__(self, vectors: Tensor) -> None:
        """`vectors`: [tokens, an even width]."""
        super().__init__()
        columns = (vectors.abs().amax(0) / 127).clamp(min=1e-9)
        scaled = vectors / columns
        most = scaled.abs().amax(1, keepdim=True).clamp(min=1e-3)
        # Rows whose largest number is cut off may have smaller errors.
        scales = torch.stack([most * part / 7 for part in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)])
        errors = torch.stack(
            [((scaled / one).round().clamp(-8, 7) * one - scaled).square().sum(1) for one in scales]
        )
        rows = scales[errors.argmin(0), torch.arange(len(vectors))].half()
        numbers = ((scaled / rows.float()).round().clamp(-8, 7) + 8).to(torch.uint8)
        low, high = numbers.chunk(2, 1)
        self.table = nn.Parameter(low + 16 * high, requires_grad=False)
        self.rows = nn.Parameter(rows, requires_grad=False)
        self.columns = nn.Parameter(columns, requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Return [..., width] for [...]."""
        packed = self.table[ids].float()
        high = torch.floor(packed / 16)
        numbers = torch.cat([packed - 16 * high, high], -1) - 8
        return numbers * self.rows[ids].float() * self.columns


class ByteVectors(nn.Module):
    """Token vectors in 8 bits, with a scale for each column."""

    def __init__(self, vectors: Tensor) -> None:
        """`vectors`: [tokens, width]."""
        super().__init__()
        scale = vectors.abs().amax(0) / 127
        self.scale = nn.Parameter(scale, requires_grad=False)
        table = (vectors / scale).round().clamp(-127, 127).to(torch.int8)
        self.table = nn.Parameter(table, requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Return [..., width] for [...]."""
        return self.table[ids].float() * self.scale


class ShippedPassages(nn.Module):
    """The network with its token vectors, from token ids to probabilities."""

    def __init__(self, network: PassageArchitecture, vectors: nn.Module) -> None:
        """`vectors` returns those of token ids, of the width that the network reads."""
        super().__init__()
        self.network, self.vectors = network, vectors

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return [passages] private, [passages, kinds], [passages, tokens, tags], and the vectors
        [passages, tokens, width].
        """
        vectors = self.vectors(ids)
        logits, tags = self.network(vectors, mask)
        return logits[:, 0].sigmoid(), logits[:, 1:].softmax(-1), tags.softmax(-1), vectors


class SecondOpinion(nn.Module):
    """A network that reads the vectors of another one, from them to log-odds."""

    def __init__(self, network: PassageArchitecture, bias: float) -> None:
        """`bias` is added."""
        super().__init__()
        self.network, self.bias = network, bias

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Return [passages]: the log-odds of private."""
        return self.network(vectors, mask)[0][:, 0] + self.bias
