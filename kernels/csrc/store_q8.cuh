// Turns four neighbours that each lane has into bytes of the tiles of q8_tile.cuh.
#pragma once
#include "q8_tile.cuh"

// Below it the reciprocal of the scale is infinite; such inputs are zeros for every purpose.
#define SMALLEST_INPUT 1e-30f

struct QuantizedFour {
  u32 bytes;
  int sum;
};

DEVICE QuantizedFour quantize_four(float4 x, float inverse) {
  const int a = round_to_int(x.x * inverse), b = round_to_int(x.y * inverse);
  const int c = round_to_int(x.z * inverse), d = round_to_int(x.w * inverse);
  return {u32(a & 255) | u32(b & 255) << 8 | u32(c & 255) << 16 | u32(d & 255) << 24, a + b + c + d};
}

// All lanes of a warp call it. Eight that follow one another, the first of them a multiple of eight,
// have a group of 32: `first` is the place of this lane's v among the inputs of `column`, a multiple
// of four. Nothing is stored where it is not `inside`, but its lane is needed nevertheless.
DEVICE void store_q8(u8* tiles, int columns, int column, int first, float4 v, bool inside) {
  // NaN must not get lost: it makes the scale NaN, and with it every product.
  float largest = max_or_nan(max_or_nan(fabsf(v.x), fabsf(v.y)), max_or_nan(fabsf(v.z), fabsf(v.w)));
#pragma unroll
  for (int offset = 4; offset; offset >>= 1) largest = max_or_nan(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
  const bool nothing = largest < SMALLEST_INPUT;
  const float scale = nothing ? 0.f : q8_scale(largest);
  const QuantizedFour q = quantize_four(v, nothing ? 0.f : 127.f / largest);
  int half = q.sum;
#pragma unroll
  for (int offset = 2; offset; offset >>= 1) half += __shfl_xor_sync(EVERY_LANE, half, offset);
  const int other = __shfl_xor_sync(EVERY_LANE, half, 4);
  if (!inside) return;
  const int group = first / 32 % 32, part = first % 32 / 4;
  u8* const tile = tiles + (size_t(first / Q8_TILE_INPUTS) * columns + column) * Q8_TILE_BYTES;
  reinterpret_cast<u32*>(tile + part / 4 * 512 + group * 16)[part % 4] = q.bytes;
  if (part == 0)
    *reinterpret_cast<uint4*>(tile + 1024 + group * 16) =
        make_uint4(float_to_bits(scale), float_to_bits(scale * float(half + other)), -32 * half, -32 * other);
}
