// Q4_K and Q5_K weights (q4_k.cuh and q5_k.cuh say how they lie in memory) on tensor cores.
//
// A row of a slab: 16 bytes of nibbles for each of its groups, the header of its super-block, 4 bytes
// of fifth bits for each group where there are any.
#pragma once
#include "gemm.cuh"
#include "gemm_nibbles.cuh"

template <int BITS>
struct KGemm {
  static constexpr bool SIGNED = false, MINIMA = true, HALVES = false;
  static constexpr int BIT_BYTES = BITS == 5 ? 4 : 0, TILE_BYTES = 32 * (16 + BIT_BYTES) + 64;
  static constexpr int ROW_BYTES = BITS == 5 ? 112 : 80;

  template <class Rows>
  DEVICE void copy(const Rows& rows, const GemmSlab& at, u8* shared) const {
    const int tile = at.tile * TILE_BYTES, bits = tile + at.groups * 16;
    rows.template copy<16, 4, ROW_BYTES>(shared, tile + at.group * 16);
    rows.template copy<16, 1, ROW_BYTES>(shared + 64, bits + at.groups * BIT_BYTES + at.group / 8 * 16);
    if (BITS == 5) rows.template copy<16, 1, ROW_BYTES>(shared + 80, bits + at.group * 4);
  }

  DEVICE void load(u32 (&a)[2][4], const u8* rows, int pair) const {
    if constexpr (BITS == 5) load_five_bits<ROW_BYTES, 80, false>(a, rows, pair);
    else load_nibbles<ROW_BYTES, false>(a, rows, pair);
  }

  DEVICE float2 scale(const u8* row, const GemmSlab& at, int group, int) const {
    const uint4 header = *reinterpret_cast<const uint4*>(row + 64);
    const int place = (at.group + group) & 7;
    const u32 low = place < 3 ? header.y : (place < 6 ? header.z : header.w), high = place < 3 ? header.z : header.w;
    const u32 fields = funnel_shift_right(low, high, 12u * place & 31);
    const float d = half_to_float(u16(header.x)) * (BITS == 5 ? 0.125f : 1.f);
    return make_float2(d * float(int(fields & 63u)), -half_to_float(u16(header.x >> 16)) * float(int(fields >> 6 & 63u)));
  }
};
