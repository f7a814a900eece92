"""The variants of the attention kernels: constants, parameters, launch shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from ..kv_cache.kv_page_format import block_size

AttentionKernel = Literal["attend_split", "attend_chunk"]
QueryType = Literal["f16", "bf16"]
PageType = Literal["f16", "bf16", "q8_0", "q4_0"]

HEAD_SIZES = (64, 80, 96, 128, 256, 512)
LATENT_SIZES = ((512, 64), (256, 64))
"""Elements of a latent, which is a value and the end of a key, and those of keys before it."""
_SPLIT_ROWS = (16, 32, 64)
_FEW_SPLIT_ROWS = (16,)
_BIASED_HEAD_SIZES = (64, 128)
# Elements that share a scale as bytes.
_GROUP = 32

_FLOATS: Mapping[str, str] = {"f16": "*fp16", "bf16": "*bf16"}
_CODES: Mapping[str, str] = {"q8_0": "*i8", "q4_0": "*u8"}
_BITS: Mapping[str, int] = {"f16": 16, "bf16": 16, "q8_0": 8, "q4_0": 4}


# Stages of Triton's pipeline for so many pending tiles, each after its page numbers.
_NO_TILE, _ONE_TILE, _TWO_TILES = 1, 2, 6
# Registers of a thread with which three programs of four warps fit on an SM; all there are.
_FOR_THREE, _ALL = 168, 255


@dataclass(frozen=True)
class LaunchShape:
    """Keys that a program takes at a time, its warps, and its pipeline stages.

    `registers` are the most that a thread may have; with this bound the assembler spills none.
    """

    tile: int
    warps: int
    stages: int
    registers: int


@dataclass(frozen=True)
class AttentionVariant:
    """A kernel of `attention_kernels` for heads of one size, and queries and pages of one type.

    Its programs have `rows` rows of queries times heads. `pairs`, unless 0, is the number of pairs
    of a head that rotate with the bias that quantised keys are stored without. With `lead` there
    are no values beside the keys: they are the last `head_size` elements of a key, behind `lead`
    others, which all heads share.
    """

    kernel: AttentionKernel
    head_size: int
    query: QueryType
    pages: PageType
    rows: int
    pairs: int = 0
    lead: int = 0

    @property
    def name(self) -> str:
        """A unique name, usable in a file name."""
        biased = f"-b{self.pairs}" if self.pairs else ""
        biased += f"-l{self.lead}" if self.lead else ""
        size = f"{self.head_size}{biased}-r{self.rows}"
        return f"{self.kernel}-{self.query}-{self.pages}-{size}"

    @property
    def padded_size(self) -> int:
        """The power of two to which head_size is padded."""
        return 1 << (self.head_size - 1).bit_length()

    @property
    def combines(self) -> bool:
        """Whether the kernel can combine the parts that it writes; see `combine_parts`."""
        is_small = self.kernel == "attend_split" and self.rows == _FEW_SPLIT_ROWS[0]
        return is_small and self.head_size % _GROUP == 0

    def shape(self, architecture: str) -> LaunchShape:
        """The launch shape for an architecture such as `sm_90`.

        Tiles are as large as registers allow without spilling. Only sm_90 has shared memory for two
        tiles of the largest heads.
        """
        is_roomy = architecture == "sm_90"
        # Of codes all of a key is unpacked, and kept for when it is the value.
        unpacks = self.lead > 0 and self.pages in _CODES and self.rows > 16
        if self.padded_size > 256:
            return LaunchShape(16, 16 if unpacks else 8, _ONE_TILE, _ALL)
        if unpacks and self.rows > 32 and not is_roomy:
            return LaunchShape(16, 8, _ONE_TILE, _ALL)
        warps = 8 if self.rows > 32 or (self.rows > 16 and self.padded_size > 128) else 4
        is_plain = self.pages in _FLOATS and self.padded_size <= 128
        registers = _FOR_THREE if warps == 4 and is_plain else _ALL
        if self.pairs and self.kernel == "attend_chunk":
            tile, stages = 32 if is_roomy else 16, _NO_TILE
        elif self.pairs:
            tile, stages = 32, _ONE_TILE
        elif self.padded_size > 128:
            tile, stages = 32, _TWO_TILES if is_roomy else _ONE_TILE
        else:
            is_wide = self.kernel == "attend_chunk" and is_roomy
            tile, stages = 64 if is_wide or self.padded_size == 64 else 32, _TWO_TILES
        return LaunchShape(tile, warps, stages, registers)

    def constants(self, architecture: str) -> dict[str, int]:
        """The constants that the kernel is compiled with."""
        return {
            "HEAD": self.head_size,
            "PADDED": self.padded_size,
            "BITS": _BITS[self.pages],
            "BLOCK": block_size(self.lead + self.head_size),
            "PAIRS": self.pairs,
            "LEAD": self.lead,
            "ROWS": self.rows,
            "TILE": self.shape(architecture).tile,
            **({"COMBINES": int(self.combines)} if self.kernel == "attend_split" else {}),
        }

    @property
    def parameters(self) -> dict[str, str]:
        """The types of the kernel's other parameters, in order, in Triton's notation."""
        rows = _FLOATS[self.query]
        pages = _FLOATS.get(self.pages) or _CODES[self.pages]
        pointers = {
            "query": rows,
            "bias_query": "*fp32",
            "keys": pages,
            "key_scales": "*fp16",
            "values": pages,
            "value_scales": "*fp16",
            "cosine": "*fp32",
            "sine": "*fp32",
            "block_tables": "*i32",
            "context_lengths": "*i32",
            "query_starts": "*i32",
            "sinks": "*fp32",
            "outputs": "*fp32",
            "log_sums": "*fp32",
            "dense": rows,
        }
        is_split = self.kernel == "attend_split"
        if is_split:
            pointers |= {"combined": "*u8", "facts": "*i32", "counts": "*i32"}
        numbers = (
            "query_heads",
            "table_width",
            "tokens",
            "sequences",
            "group",
            "kv_heads",
            "window",
            "limit",
            *(("parts",) if is_split else ()),
            "has_sinks",
            *(("forms",) if is_split else ()),
        )
        return pointers | dict.fromkeys(numbers, "i32") | {"scale": "fp32", "soft_cap": "fp32"}


def split_rows(head_size: int, pairs: int) -> tuple[int, ...]:
    """The row counts that `attend_split` is compiled for."""
    return _FEW_SPLIT_ROWS if pairs or head_size > 256 else _SPLIT_ROWS


def chunk_rows(head_size: int, pairs: int) -> int:
    """Rows of `attend_chunk`: as many as registers and shared memory allow."""
    if head_size > 256:
        return 32
    return 64 if head_size > 128 or pairs else 128


def attention_variants() -> Iterator[AttentionVariant]:
    """All variants."""
    pages: tuple[PageType, ...] = ("f16", "bf16", "q8_0", "q4_0")
    queries: tuple[QueryType, ...] = ("f16", "bf16")
    for head_size, query, stored in product(HEAD_SIZES, queries, pages):
        is_biased = stored in _CODES and head_size in _BIASED_HEAD_SIZES
        for pairs in (0, head_size // 2) if is_biased else (0,):
            for rows in split_rows(head_size, pairs):
                yield AttentionVariant("attend_split", head_size, query, stored, rows, pairs)
            rows = chunk_rows(head_size, pairs)
            yield AttentionVariant("attend_chunk", head_size, query, stored, rows, pairs)
    for (size, lead), query, stored in product(LATENT_SIZES, queries, pages[:-1]):
        for rows in split_rows(size, 0):
            yield AttentionVariant("attend_split", size, query, stored, rows, lead=lead)
        rows = chunk_rows(size, 0)
        yield AttentionVariant("attend_chunk", size, query, stored, rows, lead=lead)


def prebuilt_variants() -> Iterator[AttentionVariant]:
    """Those that are compiled ahead of time: all GPUs with kernels compute in bfloat16."""
    return (variant for variant in attention_variants() if variant.query == "bf16")


def variants_of(
    *,
    head_size: int,
    query: QueryType,
    pages: PageType,
    pairs: Collection[int],
    lead: int = 0,
) -> list[AttentionVariant]:
    """The variants that a model may launch, with a key bias that rotates in `pairs` or without.

    With `lead` it is those whose values are the ends of keys.
    Empty if there are no kernels for such heads.
    """
    return [
        variant
        for variant in attention_variants()
        if (variant.head_size, variant.query, variant.pages) == (head_size, query, pages)
        and variant.lead == lead
        and variant.pairs in {0, *pairs}
    ]
