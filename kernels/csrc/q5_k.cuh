// Q5_K weights as kernels/formats/repacked_k_quants.py lays them out (drawn in docs/kernels.md): as Q4_K, with 4
// bytes of fifth bits for each group of a tile between the nibbles and the headers.
#pragma once
#include "gemv.cuh"
#include "k_header.cuh"

#define Q5_K_TILE_BYTES 704

struct Q5K {
  typedef const u8* Cursor;
  struct Raw {
    uint4 nibbles, header;
    u32 bits;
  };
  typedef WeightGroup Group;
  int lane, to_bits, to_header;
  KHeader scales;

  DEVICE explicit Q5K(int lane) : lane(lane), to_bits(lane * -12), to_header(lane / 8 * 16 - lane * 16), scales(lane) {}

  DEVICE Cursor at(const u8* row, int, int tile) const { return row + tile * Q5_K_TILE_BYTES + lane * 16; }
  DEVICE void advance(Cursor& cursor, int tiles) const { cursor += tiles * Q5_K_TILE_BYTES; }

  DEVICE Raw load(Cursor cursor, int groups) const {
    return {load_streaming_16(cursor), load_streaming_16(cursor + to_header + groups * 20),
            load_streaming_4(cursor + to_bits + groups * 16)};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    take_five_bits(raw.nibbles, raw.bits, group);
    scales.decode(raw.header, group);
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const { return add_products<3>(w, x, sum); }
};

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, GEMV_BLOCKS(64707700, COLUMNS))      \
      q5_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS) {                                \
    gemv<Q5K, ROWS, COLUMNS, SPLIT>(Q5K(threadIdx.x % 32), GEMV_ARGUMENTS);                       \
  }                                                                                               \
  EXPORT_KERNEL(q5_k_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
GEMV_VARIANTS
