// Q4_0, Q4_1, Q5_0 and Q5_1 weights as kernels/formats/repacked_blocks.py lays them out (drawn in
// docs/kernels.md): a row is tiles of 32 groups, the last one maybe of fewer; a tile is 16 bytes of
// nibbles for each of its groups, 4 bytes of fifth bits for each where there are any, and the factor
// (f16) of each, with the minimum (f16) behind it where there is one.
#pragma once
#include "gemv.cuh"
#include "weight_group.cuh"

template <int BITS, bool MINIMA>
struct Block32 {
  static constexpr int BIT_BYTES = BITS == 5 ? 4 : 0, SCALE_BYTES = MINIMA ? 4 : 2;
  static constexpr int TILE_BYTES = 32 * (16 + BIT_BYTES + SCALE_BYTES);
  typedef const u8* Cursor;
  struct Raw {
    uint4 nibbles;
    u32 bits, scales;
  };
  typedef WeightGroup Group;
  int lane;

  DEVICE Cursor at(const u8* row, int, int tile) const { return row + tile * TILE_BYTES + lane * 16; }
  DEVICE void advance(Cursor& cursor, int tiles) const { cursor += tiles * TILE_BYTES; }

  DEVICE Raw load(Cursor cursor, int groups) const {
    const u8* const scales = cursor + lane * (SCALE_BYTES - 16) + groups * (16 + BIT_BYTES);
    return {load_streaming_16(cursor), BITS == 5 ? load_streaming_4(cursor + lane * -12 + groups * 16) : 0,
            MINIMA ? load_streaming_4(scales) : load_streaming_2(scales)};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    if (BITS == 5) take_five_bits(raw.nibbles, raw.bits, group);
    else take_nibbles(raw.nibbles, group);
    group.scale = half_to_float(u16(raw.scales));
    // Without a minimum, half of what the bits can count means zero.
    group.minimum = MINIMA ? -half_to_float(u16(raw.scales >> 16)) : group.scale * float(1 << BITS >> 1);
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const {
    return add_products<BITS == 5 ? 3 : 4>(w, x, sum);
  }
};

#define BLOCK32_KERNEL(NAME, BITS, MINIMA, BLOCKS, ROWS, COLUMNS, SPLIT)                          \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, BLOCKS)                              \
      NAME##_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS) {                              \
    gemv<Block32<BITS, MINIMA>, ROWS, COLUMNS, SPLIT>({int(threadIdx.x % 32)}, GEMV_ARGUMENTS);   \
  }                                                                                               \
  EXPORT_KERNEL(NAME##_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
