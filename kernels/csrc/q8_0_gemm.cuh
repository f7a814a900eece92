// Products of Q8_0 weights (q8_0.cuh says how they lie in memory) on tensor cores.
#pragma once
#include "gemm.cuh"

// A row of a slab: the first 16 bytes of each of its groups, the last 16 of each, the factor of each.
struct Q80Gemm {
  static constexpr bool SIGNED = true, MINIMA = false, HALVES = false;
  static constexpr int ROW_BYTES = 144, TILE_BYTES = 1088;

  template <class Rows>
  DEVICE void copy(const Rows& rows, const GemmSlab& at, u8* shared) const {
    const int first = at.tile * TILE_BYTES + at.group * 16, last = first + at.groups * 16;
    rows.template copy<16, 4, ROW_BYTES>(shared, first, at.valid);
    rows.template copy<16, 4, ROW_BYTES>(shared + 64, last, at.valid);
    rows.template copy<4, 2, ROW_BYTES>(shared + 128, at.tile * TILE_BYTES + at.groups * 32 + at.group * 2, (at.valid + 1) / 2);
  }

  DEVICE void load(u32 (&a)[2][4], const u8* rows, int pair) const {
    const int lane = threadIdx.x % 32;
    const u8* const place = rows + lane % 16 * ROW_BYTES + lane / 16 * 64 + pair * 32;
    load_matrix_x4(a[0], place);
    load_matrix_x4(a[1], place + 16);
  }

  DEVICE float2 scale(const u8* row, const GemmSlab& at, int group, int) const {
    const u16 bits = *reinterpret_cast<const u16*>(row + 128 + group * 2);
    return make_float2(group < at.valid ? half_to_float(bits) : 0.f, 0.f);
  }
};

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q8_0_gemm_c##COLUMNS, Q80Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS
