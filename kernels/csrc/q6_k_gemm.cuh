// Products of Q6_K weights (q6_k.cuh says how they lie in memory) on tensor cores.
#pragma once
#include "gemm.cuh"

// A row of a slab: 16 bytes of nibbles for each of its groups, 8 bytes of pairs of bits for each, 2 scales
// for each, and the 4 bytes in which the super-block's factor is. Fragments are signed and 4 times
// too large; a scale is for 16 weights.
struct Q6KGemm {
  static constexpr bool SIGNED = true, MINIMA = false, HALVES = true;
  static constexpr int ROW_BYTES = 112, TILE_BYTES = 832;
  int blocks;

  template <class Rows>
  DEVICE void copy(const Rows& rows, const GemmSlab& at, u8* shared) const {
    const int tile = at.tile * TILE_BYTES, block = at.tile * 4 + at.group / 8;
    rows.template copy<16, 4, ROW_BYTES>(shared, tile + at.group * 16);
    rows.template copy<16, 2, ROW_BYTES>(shared + 64, tile + at.groups * 16 + at.group * 8);
    rows.template copy<8, 1, ROW_BYTES>(shared + 96, tile + at.groups * 24 + at.group * 2);
    rows.template copy<4, 1, ROW_BYTES>(shared + 104, blocks * 208 + block / 2 * 4);
  }

  DEVICE void load(u32 (&a)[2][4], const u8* rows, int pair) const {
    const int lane = threadIdx.x % 32;
    u32 words[4];
    load_words<ROW_BYTES>(words, rows, pair);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u8* const row = rows + (lane / 4 + i % 2 * 8) * ROW_BYTES;
      const u32 pairs = *reinterpret_cast<const u32*>(row + 64 + (2 * pair + i / 2) * 8 + lane % 4 / 2 * 4);
      const u32 bits = funnel_shift_left(pairs, pairs, lane % 2 * 4);
      const u32 first = select_bits(words[i], bits, 0x0f0f0f0fu) & 0x3f3f3f3fu;
      a[i / 2][i % 2] = first << 2 ^ 0x80808080u;
      a[i / 2][i % 2 + 2] = select_bits(words[i], bits, 0xf0f0f0f0u) & 0xfcfcfcfcu;
    }
  }

  DEVICE float2 scale(const u8* row, const GemmSlab& at, int group, int) const {
    const u16 scales = *reinterpret_cast<const u16*>(row + 96 + group * 2);
    const float d = 0.25f * half_to_float(*reinterpret_cast<const u16*>(row + 104 + (at.group / 8 & 1) * 2));
    return make_float2(d * float(int(s8(scales & 0xff))), d * float(int(s8(scales >> 8))));
  }
};

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q6_k_gemm_c##COLUMNS, Q6KGemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {inputs / 256})
GEMM_VARIANTS

// Fewer stages, of which more blocks fit into the 100 KB that an SM of a GeForce card has for all.
#ifndef TWO_STAGES_VARIANTS
#define TWO_STAGES_VARIANTS TWO_STAGES(8, 1) TWO_STAGES(16, 2) TWO_STAGES(32, 4)
#endif
#define TWO_STAGES(COLUMNS, COLUMN_TILES) \
  GEMM_KERNEL(q6_k_gemm_two_c##COLUMNS, Q6KGemm, COLUMN_TILES, 1, 2, {inputs / 256})
TWO_STAGES_VARIANTS
