// Q8_0 weights as kernels/formats/repacked_blocks.py lays them out (drawn in docs/kernels.md): a row is tiles of 32
// groups, the last one maybe of fewer; a tile is the first 16 bytes of each of its groups, the last 16
// of each, and the factor (f16) of each.
#pragma once
#include "gemv.cuh"
#include "weight_group.cuh"

#define Q8_0_TILE_BYTES 1088

struct Q80 {
  typedef const u8* Cursor;
  struct Raw {
    uint4 first, last;
    u16 scale;
  };
  struct Group {
    uint4 first, last;
    float scale;
  };
  int lane;

  DEVICE Cursor at(const u8* row, int, int tile) const { return row + tile * Q8_0_TILE_BYTES + lane * 16; }
  DEVICE void advance(Cursor& cursor, int tiles) const { cursor += tiles * Q8_0_TILE_BYTES; }

  DEVICE Raw load(Cursor cursor, int groups) const {
    return {load_streaming_16(cursor), load_streaming_16(cursor + groups * 16),
            load_streaming_2(cursor + lane * -14 + groups * 32)};
  }

  DEVICE Group decode(const Raw& raw) const { return {raw.first, raw.last, half_to_float(raw.scale)}; }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const {
    int first = dp4a_ss(w.first.x, x.first.x, FLOAT_BASE_BITS), last = dp4a_ss(w.last.x, x.last.x, 0);
    first = dp4a_ss(w.first.y, x.first.y, first), last = dp4a_ss(w.last.y, x.last.y, last);
    first = dp4a_ss(w.first.z, x.first.z, first), last = dp4a_ss(w.last.z, x.last.z, last);
    first = dp4a_ss(w.first.w, x.first.w, first), last = dp4a_ss(w.last.w, x.last.w, last);
    return fmaf(w.scale, scaled_dot(x, first + last), sum);
  }
};

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, GEMV_BLOCKS(78877800, COLUMNS))      \
      q8_0_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS) {                                \
    gemv<Q80, ROWS, COLUMNS, SPLIT>({int(threadIdx.x % 32)}, GEMV_ARGUMENTS);                     \
  }                                                                                               \
  EXPORT_KERNEL(q8_0_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
GEMV_VARIANTS
