// Four-bit weights in groups of 32, 64 or 128, as AWQ, GPTQ and compressed-tensors have them, in the layout of
// kernels/formats/codecs.py (drawn in docs/kernels.md): a row is tiles of 1024 weights, the last one maybe of
// fewer; a tile is 16 bytes of nibbles for each 32 weights, and a word for each group: its scale, a float
// whose last eight bits are instead the code that means zero.
#pragma once
#include "g4_word.cuh"
#include "gemv.cuh"
#include "weight_group.cuh"

struct G4 {
  typedef const u8* Cursor;
  struct Raw {
    uint4 nibbles;
    u32 word;
  };
  typedef WeightGroup Group;
  int lane, tile_bytes, word;  // word: from this lane's nibbles to its group's word, but for the tile's nibbles

  DEVICE explicit G4(int group) : lane(threadIdx.x % 32), tile_bytes(g4_tile_bytes(group)), word(lane / (group / 32) * 4 - lane * 16) {}

  DEVICE Cursor at(const u8* row, int, int tile) const { return row + tile * tile_bytes + lane * 16; }
  DEVICE void advance(Cursor& cursor, int tiles) const { cursor += tiles * tile_bytes; }

  DEVICE Raw load(Cursor cursor, int groups) const {
    return {load_streaming_16(cursor), load_streaming_4(cursor + word + groups * 16)};
  }

  DEVICE Group decode(const Raw& raw) const {
    Group group;
    take_nibbles(raw.nibbles, group);
    group.scale = g4_scale(raw.word);
    group.minimum = group.scale * g4_zero(raw.word);
    return group;
  }

  DEVICE float product(const Group& w, const Q8Group& x, float sum) const { return add_products<4>(w, x, sum); }
};

#define VARIANT(ROWS, COLUMNS, SPLIT)                                                             \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, GEMV_BLOCKS(00455508, COLUMNS))      \
      g4_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS, int group) {                       \
    gemv<G4, ROWS, COLUMNS, SPLIT>(G4(group), GEMV_ARGUMENTS);                                    \
  }                                                                                               \
  EXPORT_KERNEL(g4_gemv_r##ROWS##_c##COLUMNS##_s##SPLIT)
GEMV_VARIANTS
