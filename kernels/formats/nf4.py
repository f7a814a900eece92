"""NF4: quantise and dequantise, bit for bit as bitsandbytes does on a CPU.

Source of the format: QLoRA (Dettmers and others, 2023); of the roundings: bitsandbytes.
"""

from __future__ import annotations

import torch

from .weight import NestedAbsmax, NF4Tensor

# Quantiles of the normal distribution, so that each code is about as frequent as the others.
NF4_VALUES = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
# A smaller scale counts as zero; its reciprocal would be infinite.
_SMALLEST = 1e-38
# Blocks quantised at once.
_CHUNK = 1 << 14
# bitsandbytes looks codes up in a table of so many steps over [-1, 1].
_PLACES = 1 << 16


def quantize_nf4(
    weight: torch.Tensor, *, block_size: int = 64, double_quantization: bool = True
) -> NF4Tensor:
    """A matrix (rows, columns) of floats as NF4; `columns` must be whole blocks."""
    rows, columns = weight.shape
    if columns % block_size:
        raise ValueError(f"{columns} columns are not whole blocks of {block_size}.")
    codes, absmax = quantize_nf4_blocks(weight, block_size)
    codes = codes.view(rows, columns // 2)
    if not double_quantization:
        return NF4Tensor(codes, absmax.view(rows, -1), block_size)
    quantized, nested = quantize_absmax(absmax)
    return NF4Tensor(codes, quantized.view(rows, -1), block_size, nested)


def dequantize_nf4(weight: NF4Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The weights (rows, columns) in `dtype`: their float32 values, rounded once."""
    rows, columns = weight.shape
    return dequantize_nf4_blocks(
        weight.codes, weight.scales(), rows * columns, weight.block_size, dtype
    ).view(rows, columns)


def quantize_nf4_blocks(
    values: torch.Tensor, block_size: int = 64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes (bytes,) uint8 and largest magnitudes (blocks,) float32 of any tensor, flattened.

    A byte holds two codes, the earlier in the high nibble; the last block may be shorter.
    """
    flat = values.reshape(-1)
    bounds = _midpoints(torch.tensor(NF4_VALUES, device=flat.device))
    codes = torch.zeros(flat.numel() + flat.numel() % 2, dtype=torch.uint8, device=flat.device)
    if flat.numel() % 2:
        codes[-1] = 7  # the zero that fills the last byte
    absmax = torch.empty(-(-flat.numel() // block_size), device=flat.device)
    whole = flat.numel() // block_size
    for start in range(0, whole, _CHUNK):
        end = min(start + _CHUNK, whole)
        blocks = flat[start * block_size : end * block_size].float().view(-1, block_size)
        largest = blocks.abs().amax(1)
        scaled = (blocks * (1 / largest.clamp(min=_SMALLEST))[:, None]).clamp_(-1, 1)
        codes[start * block_size : end * block_size] = torch.bucketize(scaled, bounds).flatten()
        absmax[start:end] = largest
    if flat.numel() % block_size:
        # bitsandbytes divides here, where it multiplies by the inverse above.
        rest = flat[whole * block_size :].float()
        largest = rest.abs().amax().clamp(min=_SMALLEST)
        codes[whole * block_size : flat.numel()] = torch.bucketize(
            (rest / largest).clamp_(-1, 1), bounds
        )
        absmax[-1] = largest
    return codes[::2] << 4 | codes[1::2], absmax


def dequantize_nf4_blocks(
    codes: torch.Tensor,
    absmax: torch.Tensor,
    count: int,
    block_size: int = 64,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    """The first `count` values (count,) of consecutive blocks."""
    table = torch.tensor(NF4_VALUES, device=codes.device)
    # Two weights a lookup: a row for every value of a byte.
    pairs = torch.stack((table.repeat_interleave(16), table.repeat(16)), dim=1)
    flat, scales = codes.flatten(), absmax.flatten()
    out = torch.empty(count, dtype=dtype, device=codes.device)
    step = _CHUNK * block_size
    for start in range(0, count, step):
        end = min(start + step, count)
        values = pairs[flat[start // 2 : -(-end // 2)].int()].flatten()[: end - start]
        some = scales[start // block_size : -(-end // block_size)]
        whole = (end - start) // block_size
        values[: whole * block_size].view(-1, block_size).mul_(some[:whole, None])
        values[whole * block_size :].mul_(some[-1])
        out[start:end] = values
    return out


def quantize_absmax(absmax: torch.Tensor) -> tuple[torch.Tensor, NestedAbsmax]:
    """Scales (blocks,) quantised to bytes, and the nested state to dequantise them."""
    offset = absmax.mean()
    values = dynamic_values().to(absmax.device)
    group = 256
    padding = -absmax.numel() % group
    groups = torch.nn.functional.pad(absmax - offset, (0, padding)).view(-1, group)
    largest = groups.abs().amax(1)
    # A group of zeros has no reciprocal; bitsandbytes gives it code 0.
    scaled = (groups * (1 / largest)[:, None]).clamp_(-1, 1)
    places = ((scaled + 1) * 0.5 * (_PLACES - 1) + 0.5).nan_to_num_(0).int()
    codes = torch.where(largest[:, None] > 0, _codes_by_place(values)[places], 0)
    codes = codes.to(torch.uint8).flatten()[: absmax.numel()]
    return codes, NestedAbsmax(values, largest, offset, group)


def dynamic_values() -> torch.Tensor:
    """The 256 values (256,) float32 of bitsandbytes' signed dynamic 8-bit type, ascending.

    Seven decades, each with twice as many values as the one below, between 0.1 and 1 of its power
    of ten; zero; and one.
    """
    values = [torch.tensor([0.0, 1.0])]
    for exponent in range(7):
        edges = torch.linspace(0.1, 1, 2**exponent + 1)
        means = 10.0 ** (exponent - 6) * ((edges[:-1] + edges[1:]) / 2)
        values += [means, -means]
    return torch.cat(values).sort().values


def _codes_by_place(values: torch.Tensor) -> torch.Tensor:
    """The code of the nearest value for each step of [-1, 1]."""
    places = -1 + 2 * torch.arange(_PLACES, dtype=torch.float32) / (_PLACES - 1)
    return torch.bucketize(places.to(values.device), _midpoints(values))


def _midpoints(values: torch.Tensor) -> torch.Tensor:
    return (values[:-1] + values[1:]) / 2
