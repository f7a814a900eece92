// Q4_0, Q4_1, Q5_0 and Q5_1 weights (block32.cuh says how they lie in memory) on tensor cores.
//
// A row of a slab: 16 bytes of nibbles for each of its groups, 4 bytes of fifth bits for each where
// there are any, the factor of each with its minimum where there is one. Without minima weights are
// signed, which saves a multiply-add.
#pragma once
#include "gemm.cuh"
#include "gemm_nibbles.cuh"

template <int BITS, bool MINIMA_>
struct Block32Gemm {
  static constexpr bool SIGNED = !MINIMA_, MINIMA = MINIMA_, HALVES = false;
  static constexpr int BIT_BYTES = BITS == 5 ? 4 : 0, SCALE_BYTES = MINIMA ? 4 : 2;
  static constexpr int TILE_BYTES = 32 * (16 + BIT_BYTES + SCALE_BYTES), SCALES = 64 + 4 * BIT_BYTES;
  static constexpr int ROW_BYTES = BITS == 5 ? 112 : 80;

  template <class Rows>
  DEVICE void copy(const Rows& rows, const GemmSlab& at, u8* shared) const {
    const int tile = at.tile * TILE_BYTES, bits = tile + at.groups * 16;
    const int scales = bits + at.groups * BIT_BYTES + at.group * SCALE_BYTES;
    rows.template copy<16, 4, ROW_BYTES>(shared, tile + at.group * 16, at.valid);
    if (BITS == 5) rows.template copy<16, 1, ROW_BYTES>(shared + 64, bits + at.group * 4);
    rows.template copy<4, SCALE_BYTES, ROW_BYTES>(shared + SCALES, scales, (at.valid * SCALE_BYTES + 3) / 4);
  }

  DEVICE void load(u32 (&a)[2][4], const u8* rows, int pair) const {
    if constexpr (BITS == 5) load_five_bits<ROW_BYTES, 64, SIGNED>(a, rows, pair);
    else load_nibbles<ROW_BYTES, SIGNED>(a, rows, pair);
  }

  DEVICE float2 scale(const u8* row, const GemmSlab& at, int group, int) const {
    const u16* const scale = reinterpret_cast<const u16*>(row + SCALES + group * SCALE_BYTES);
    if (group >= at.valid) return make_float2(0.f, 0.f);
    const float unit = BITS == 5 ? 0.125f : (SIGNED ? 0.0625f : 1.f);
    return make_float2(half_to_float(scale[0]) * unit, MINIMA ? half_to_float(scale[1]) : 0.f);
  }
};
