// Products of four-bit weights in groups (g4.cuh says how they lie in memory) on tensor cores.
//
// A row of a slab: 16 bytes of nibbles for each 32 weights, and the words of the one to four groups they are in.
#pragma once
#include "g4_word.cuh"
#include "gemm.cuh"
#include "gemm_nibbles.cuh"

struct G4Gemm {
  static constexpr bool SIGNED = false, MINIMA = true, HALVES = false;
  static constexpr int ROW_BYTES = 80;
  int tile_bytes, shift;  // shift: a group has 32 << shift weights

  DEVICE explicit G4Gemm(int group) : tile_bytes(g4_tile_bytes(group)), shift(group / 64) {}

  template <class Rows>
  DEVICE void copy(const Rows& rows, const GemmSlab& at, u8* shared) const {
    const int tile = at.tile * tile_bytes, words = (at.valid + (1 << shift) - 1) >> shift;
    rows.template copy<16, 4, ROW_BYTES>(shared, tile + at.group * 16, at.valid);
    rows.template copy<4, 4, ROW_BYTES>(shared + 64, tile + at.groups * 16 + (at.group >> shift) * 4, words);
  }

  DEVICE void load(u32 (&a)[2][4], const u8* rows, int pair) const { load_nibbles<ROW_BYTES, SIGNED>(a, rows, pair); }

  DEVICE float2 scale(const u8* row, const GemmSlab& at, int group, int) const {
    if (group >= at.valid) return make_float2(0.f, 0.f);
    const u32 word = *reinterpret_cast<const u32*>(row + 64 + (group >> shift) * 4);
    return make_float2(g4_scale(word), -g4_scale(word) * g4_zero(word));
  }
};

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                      \
  extern "C" __global__ void GEMM_BOUNDS(COLUMN_TILES, COLUMN_WARPS)                              \
      g4_gemm_c##COLUMNS(GEMM_PARAMETERS, int group) {                                            \
    const G4Gemm format(group);                                                                   \
    gemm<G4Gemm, GemmShape<COLUMN_TILES, COLUMN_WARPS, STAGES>>(format, GEMM_ARGUMENTS);          \
  }                                                                                               \
  EXPORT_KERNEL(g4_gemm_c##COLUMNS)
GEMM_VARIANTS
