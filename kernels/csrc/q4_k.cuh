// Q4_K weights as kernels/repacked_tensor.py lays them out (drawn in docs/kernels.md): a row is tiles of four
// super-blocks, the last one maybe of fewer; a tile is 16 bytes of nibbles for each of its groups,
// then a header of 16 bytes for each of its super-blocks.
#pragma once
#include "gemv.cuh"

#define Q4_K_TILE_BYTES 576
// 1.5 * 2^23. Added to the bits of this float, integers near zero are added to its value, so that
// sums need no conversion.
#define FLOAT_BASE 12582912.f
#define FLOAT_BASE_BITS 0x4b400000

struct Q4K {
  typedef const u8* Cursor;
  struct Raw {
    uint4 nibbles, header;
  };
  struct Group {
    u32 first[4], last[4];  // 16 weights each, the last ones times 16
    float scale, minimum;
  };
  int lane, to_header;
  u32 shift;  // where this lane's twelve bits are in a header
  bool in_first, in_second;

  DEVICE explicit Q4K(int lane)
      : lane(lane), to_header(lane / 8 * 16 - lane * 16), shift(12u * (lane & 7) & 31), in_first((lane & 7) < 3), in_second((lane & 7) < 6) {}

  DEVICE Cursor at(const u8* row, int, int tile) const { return row + tile * Q4_K_TILE_BYTES + lane * 16; }
  DEVICE void advance(Cursor& cursor, int tiles) const { cursor += tiles * Q4_K_TILE_BYTES; }

  DEVICE Raw load(Cursor cursor, int groups) const {
    return {load_streaming_16(cursor), load_streaming_16(cursor + to_header + groups * 16)};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    const u32 words[4] = {raw.nibbles.x, raw.nibbles.y, raw.nibbles.z, raw.nibbles.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      group.first[i] = words[i] & 0x0f0f0f0fu;
      group.last[i] = words[i] & 0xf0f0f0f0u;
    }
    const u32 low = in_first ? raw.header.y : (in_second ? raw.header.z : raw.header.w);
    const u32 high = in_first ? raw.header.z : raw.header.w;
    const u32 fields = funnel_shift_right(low, high, shift);
    group.scale = half_to_float(u16(raw.header.x)) * float(int(fields & 63u));
    group.minimum = half_to_float(u16(raw.header.x >> 16)) * float(int(fields >> 6 & 63u));
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const {
    int first = dp4a_us(w.first[0], x.first.x, FLOAT_BASE_BITS), last = dp4a_us(w.last[0], x.last.x, 0);
    first = dp4a_us(w.first[1], x.first.y, first), last = dp4a_us(w.last[1], x.last.y, last);
    first = dp4a_us(w.first[2], x.first.z, first), last = dp4a_us(w.last[2], x.last.z, last);
    first = dp4a_us(w.first[3], x.first.w, first), last = dp4a_us(w.last[3], x.last.w, last);
    const float dot = bits_to_float(first + (last >> 4)) - FLOAT_BASE;
    return sum + w.scale * (scale_of(x) * dot) - w.minimum * scaled_sum_of(x);
  }
};

// The second bound is how many blocks a processor has room for. Left alone with many columns, the
// compiler makes room for one more and spills a register for it.
#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, COLUMNS == 7 ? 4 : 0)                \
      q4_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS) {                                \
    gemv<Q4K, ROWS, COLUMNS, SPLIT>(Q4K(threadIdx.x % 32), GEMV_ARGUMENTS);                       \
  }                                                                                               \
  EXPORT_KERNEL(q4_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
GEMV_VARIANTS
