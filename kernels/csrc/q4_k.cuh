// Q4_K weights as kernels/formats/repacked_k_quants.py lays them out (drawn in docs/kernels.md): a row is tiles of four
// super-blocks, the last one maybe of fewer; a tile is 16 bytes of nibbles for each of its groups,
// then a header of 16 bytes for each of its super-blocks.
#pragma once
#include "gemv.cuh"
#include "k_header.cuh"

#define Q4_K_TILE_BYTES 576

struct Q4K {
  typedef const u8* Cursor;
  struct Raw {
    uint4 nibbles, header;
  };
  typedef WeightGroup Group;
  int lane, to_header;
  KHeader scales;

  DEVICE explicit Q4K(int lane) : lane(lane), to_header(lane / 8 * 16 - lane * 16), scales(lane) {}

  DEVICE Cursor at(const u8* row, int, int tile) const { return row + tile * Q4_K_TILE_BYTES + lane * 16; }
  DEVICE void advance(Cursor& cursor, int tiles) const { cursor += tiles * Q4_K_TILE_BYTES; }

  DEVICE Raw load(Cursor cursor, int groups) const {
    return {load_streaming_16(cursor), load_streaming_16(cursor + to_header + groups * 16)};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    take_nibbles(raw.nibbles, group);
    scales.decode(raw.header, group);
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const { return add_products<4>(w, x, sum); }
};

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, GEMV_BLOCKS(00068700, COLUMNS))      \
      q4_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS) {                                \
    gemv<Q4K, ROWS, COLUMNS, SPLIT>(Q4K(threadIdx.x % 32), GEMV_ARGUMENTS);                       \
  }                                                                                               \
  EXPORT_KERNEL(q4_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
GEMV_VARIANTS
