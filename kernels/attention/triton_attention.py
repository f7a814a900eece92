"""Paged attention by the Triton kernels of `attention_kernels`."""

from __future__ import annotations

from ctypes import c_float, c_int

import torch

from ..elementwise.activations import ActivationForms, Activations, q8_tiles
from ..kv_cache.kv_pages import KVPages, QuantizedKVPages, page_planes
from ..launch.cuda_driver import Argument
from ..launch.kernel_arguments import DTYPE_NAMES, pointer
from ..launch.kernel_library import TritonLibrary
from .attention_combine import AttentionPartials
from .attention_input import AttentionMetadata
from .attention_variant import (
    AttentionKernel,
    AttentionVariant,
    PageType,
    chunk_rows,
    split_rows,
)

MOST_SPLIT_QUERIES = 16
"""More queries of a sequence are a chunk of a prompt."""

MOST_SPLITS = 64

MOST_COMBINED_TOKENS = 2
"""Of more, one program would combine the parts for longer than a launch takes, by estimate."""

# Programs that an SM runs at a time, to hide each other's latency.
_PROGRAMS_A_PROCESSOR = 2
# With so few keys, one program is as fast as splits with the launch that combines them.
_FEW_KEYS = 1024
_NO_WINDOW = 2**31 - 1
# Key heads whose parts can be counted; those of the largest models are far fewer.
_MOST_KV_HEADS = 512


class TritonAttention:
    """Attention of new tokens to the pages of their sequences; see `paged_attention`.

    Partial results go to a workspace of `workspace_bytes` that all layers share: each must be
    combined before the next is computed. The kernels and their grids follow from shapes and from
    the bounds in `AttentionMetadata` alone, so that a recorded launch stays valid while contexts
    grow up to `longest_context`. `fill` initialises the workspace, for tests. Without `balance`
    each sequence of a step has as many splits as the others, however long it is. Launches count
    their parts in memory of this object, so those of two streams must not overlap.
    """

    def __init__(
        self,
        library: TritonLibrary,
        device: torch.device,
        *,
        workspace_bytes: int = 32 << 20,
        fill: float = 0.0,
        balance: bool = True,
    ) -> None:
        self._library = library
        self._balance = balance
        count = workspace_bytes // 4
        self._workspace = torch.full((count,), fill, dtype=torch.float32, device=device)
        counts = MOST_COMBINED_TOKENS * _MOST_KV_HEADS
        self._counts = torch.zeros(counts, dtype=torch.int32, device=device)

    def attend(
        self,
        query: torch.Tensor,
        bias_query: torch.Tensor | None,
        key_pages: KVPages,
        value_pages: KVPages,
        step: AttentionMetadata,
        *,
        scale: float,
        window: int | None = None,
        soft_cap: float | None = None,
        sinks: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        wanted: ActivationForms | None = None,
    ) -> AttentionPartials:
        """Outputs (tokens, heads, value_size) of `query` (tokens, heads, head_size) fp16 or bf16.

        They are split or whole. Where values are narrower than keys, they are the ends of keys.

        The heads of a token are contiguous; tokens are a multiple of heads apart, aligned to 16
        bytes. For quantised pages queries and outputs are rotated (see `hadamard`). `bias_query`
        (tokens, heads, 2 * pairs) fp32 is needed if keys have a bias, which excludes `soft_cap`:
        `[q1 b1 + q2 b2 | q2 b1 - q1 b2]` of a query's and the bias's first and second halves of
        pairs, before `hadamard`. The bias's tables begin at position 0, and their angles are
        proportional to it. `sinks` (heads,) fp32 are as in `AttentionInput`. `out` becomes `dense`
        of the result. Parts of up to `MOST_COMBINED_TOKENS` tokens are combined to the `wanted`
        forms by the same launch, if the kernel can.
        """
        assert bias_query is None or soft_cap is None
        tokens, heads, head_size = query.shape
        assert query.stride()[1:] == (head_size, 1)
        assert query.stride(0) % head_size == 0
        assert query.data_ptr() % 16 == 0
        size = (tokens, heads, value_pages.shape[3])
        dense = query.new_empty(size) if out is None else out
        assert dense.is_contiguous()
        assert dense.shape == size
        assert sinks is None or (sinks.shape == (heads,) and sinks.dtype == torch.float32)
        arguments = _Arguments(query, bias_query, key_pages, value_pages, step, dense)
        assert arguments.group <= MOST_SPLIT_QUERIES
        arguments.scalars = [c_float(scale), c_float(soft_cap or 0.0)]
        arguments.window = window or _NO_WINDOW
        arguments.sinks = sinks
        sequences = step.context_lengths.shape[0]
        if tokens == 0 or sequences == 0:
            return AttentionPartials(dense)
        is_chunk = step.longest_query > MOST_SPLIT_QUERIES
        keys = min(step.longest_context, arguments.window + step.longest_query)
        arguments.wanted = wanted if tokens <= MOST_COMBINED_TOKENS else None
        if is_chunk and (sequences == 1 or keys <= _FEW_KEYS):
            self._attend_chunks(arguments, AttentionPartials(dense), limit=0)
            return AttentionPartials(dense)
        partials = self._attend_splits(arguments, keys)
        if is_chunk:
            self._attend_chunks(arguments, partials, limit=MOST_SPLIT_QUERIES)
        needed = partials.splits > 1 or partials.combined is not None
        return partials if needed else AttentionPartials(dense)

    def _attend_splits(self, arguments: _Arguments, keys: int) -> AttentionPartials:
        """Sequences of few queries, with enough splits to fill the GPU."""
        longest = min(arguments.step.longest_query, MOST_SPLIT_QUERIES)
        variant = arguments.split_variant(longest)
        rows = variant.rows
        blocks = -(-longest // (rows // arguments.group))
        programs = arguments.sequences * blocks
        tiles = -(-keys // variant.shape(self._library.architecture).tile)
        parts = 0
        if self._balance and programs > 1 and keys > _FEW_KEYS:
            # Any of the sequences may be the one that has nearly all keys.
            splits = self._most_splits(arguments, arguments.kv_heads, tiles)
            parts = splits if splits > 1 else 0
        else:
            most = self._most_splits(arguments, programs * arguments.kv_heads, tiles)
            share = -(-tiles // most)
            splits = max(1, -(-tiles // share)) if share else 1
        partials = self._partials(arguments, splits, arguments.combined(variant))
        self._library.launch_compiled(
            variant.name,
            (programs + parts, arguments.kv_heads, 1 if parts else splits),
            arguments.pack(partials, MOST_SPLIT_QUERIES, parts, counts=self._counts),
        )
        return partials

    def _attend_chunks(
        self, arguments: _Arguments, partials: AttentionPartials, *, limit: int
    ) -> None:
        variant = arguments.chunk_variant()
        tokens = arguments.query.shape[0]
        blocks = tokens // (variant.rows // arguments.group) + arguments.sequences
        self._library.launch_compiled(
            variant.name, (blocks, arguments.kv_heads, 1), arguments.pack(partials, limit)
        )

    def _most_splits(self, arguments: _Arguments, programs: int, tiles: int) -> int:
        """As many splits as fill the GPU, have keys to read, and fit into the workspace."""
        tokens, heads, head_size = arguments.dense.shape
        fitting = self._workspace.numel() // (tokens * heads * (head_size + 1))
        wanted = -(-self._library.num_sms * _PROGRAMS_A_PROCESSOR // programs)
        return max(1, min(wanted, tiles, fitting, MOST_SPLITS))

    def _partials(
        self, arguments: _Arguments, splits: int, combined: Activations | None
    ) -> AttentionPartials:
        tokens, heads, head_size = arguments.dense.shape
        rows = splits * tokens * heads
        if splits == 1 and combined is None:
            # The kernel writes whole rows; only the marks of chunks need valid memory.
            marks = self._workspace[:rows].view(1, tokens, heads)
            return AttentionPartials(arguments.dense, None, marks)
        outputs = self._workspace[: rows * head_size].view(splits, tokens, heads, head_size)
        log_sums = self._workspace[rows * head_size : rows * (head_size + 1)]
        log_sums = log_sums.view(splits, tokens, heads)
        return AttentionPartials(arguments.dense, outputs, log_sums, combined)


class _Arguments:
    """The arguments of both kernels."""

    def __init__(
        self,
        query: torch.Tensor,
        bias_query: torch.Tensor | None,
        key_pages: KVPages,
        value_pages: KVPages,
        step: AttentionMetadata,
        dense: torch.Tensor,
    ) -> None:
        self.query, self.step, self.dense = query, step, dense
        heads, self.size = dense.shape[1:]
        self.lead = key_pages.shape[3] - self.size
        self.group = _most_together(heads) if self.lead else heads // key_pages.shape[2]
        self.kv_heads = heads // self.group
        self.sequences = step.context_lengths.shape[0]
        self.window = _NO_WINDOW
        self.sinks: torch.Tensor | None = None
        self.scalars: list[Argument] = []
        self.wanted: ActivationForms | None = None
        self._bias_query = bias_query
        self._key_pages, self._value_pages = key_pages, value_pages
        self._pairs = 0 if bias_query is None else bias_query.shape[2] // 2
        assert key_pages.shape[:3] == value_pages.shape[:3]
        assert self.lead == 0 or (self.lead > 0 and key_pages.shape[2] == 1)

    def combined(self, variant: AttentionVariant) -> Activations | None:
        """What the kernel is to write of combined parts; None if it does not combine them."""
        if self.wanted is None or not variant.combines:
            return None
        tokens, heads, size = self.dense.shape
        assert self.kv_heads <= _MOST_KV_HEADS
        tiles = None
        if self.wanted.tiles:
            tiles = q8_tiles(tokens, heads * size, self.query.device)
        dense = None if self.wanted.dense is None else self.dense.view(tokens, -1)
        return Activations(heads * size, dense, tiles)

    def split_variant(self, queries: int) -> AttentionVariant:
        """The smallest kernel for so many queries of a sequence, or the largest there is."""
        rows = split_rows(self.size, self._pairs)
        fitting = [each for each in rows if each >= queries * self.group]
        return self._variant("attend_split", fitting[0] if fitting else rows[-1])

    def chunk_variant(self) -> AttentionVariant:
        """The kernel for chunks of prompts."""
        return self._variant("attend_chunk", chunk_rows(self.size, self._pairs))

    def _variant(self, kernel: AttentionKernel, rows: int) -> AttentionVariant:
        query, pages = DTYPE_NAMES[self.query.dtype], _page_type(self._key_pages)
        return AttentionVariant(kernel, self.size, query, pages, rows, self._pairs, self.lead)

    def pack(
        self, partials: AttentionPartials, *limits: int, counts: torch.Tensor | None = None
    ) -> list[Argument]:
        """The arguments in the order of `AttentionVariant.parameters`, which has the `limits`.

        Kernels that may combine the parts have `counts` of them.
        """
        step, (tokens, _, head_size) = self.step, self.query.shape
        keys, key_scales = page_planes(self._key_pages)
        values, value_scales = page_planes(self._value_pages)
        bias = self._key_pages.bias if isinstance(self._key_pages, QuantizedKVPages) else None
        assert (bias is None) == (self._bias_query is None)
        found = partials.combined or Activations(0)
        forms = (found.dense is not None) + 2 * (found.tiles is not None)
        tensors = (
            self.query,
            self._bias_query,
            keys,
            key_scales,
            values,
            value_scales,
            None if bias is None else bias.cosine,
            None if bias is None else bias.sine,
            step.block_tables,
            step.context_lengths,
            step.query_starts,
            self.sinks,
            partials.outputs,
            partials.log_sums,
            partials.dense,
            *(() if counts is None else (found.tiles, found.tiles, counts)),
        )
        numbers = (
            self.query.stride(0) // head_size,
            step.block_tables.stride(0),
            tokens,
            self.sequences,
            self.group,
            self.kv_heads,
            self.window,
            *limits,
            self.sinks is not None,
            *(() if counts is None else (forms,)),
        )
        return [*map(pointer, tensors), *map(c_int, numbers), *self.scalars]


def _most_together(heads: int) -> int:
    """Query heads that one program takes, of all that share a key: an equal part of them."""
    return max(n for n in range(1, MOST_SPLIT_QUERIES + 1) if heads % n == 0)


def _page_type(pages: KVPages) -> PageType:
    if isinstance(pages, QuantizedKVPages):
        return "q8_0" if pages.format.bits == 8 else "q4_0"
    return DTYPE_NAMES[pages.dtype]
