// Products of MXFP4 weights (mxfp4.cuh says how they lie in memory) on tensor cores.
#pragma once
#include "code_gemm.cuh"
#include "mxfp4_scale.cuh"

// A row of a slab: 16 bytes of codes for each of its groups, the exponent of each.
struct MXFP4Gemm {
  static constexpr bool SIGNED = true, MINIMA = false, HALVES = false;
  static constexpr int ROW_BYTES = 80;
  CodeTable table;

  template <class Rows>
  DEVICE void copy(const Rows& rows, const GemmSlab& at, u8* shared) const {
    const int tile = at.tile * MXFP4_TILE_BYTES;
    rows.template copy<16, 4, ROW_BYTES>(shared, tile + at.group * 16, at.valid);
    rows.template copy<4, 1, ROW_BYTES>(shared + 64, tile + at.groups * 16 + at.group);
  }

  DEVICE void load(u32 (&a)[2][4], const u8* rows, int pair) const { load_codes<ROW_BYTES>(table, a, rows, pair); }

  DEVICE float2 scale(const u8* row, const GemmSlab& at, int group, int) const {
    return make_float2(group < at.valid ? mxfp4_scale(row[64 + group]) : 0.f, 0.f);
  }
};

DEVICE MXFP4Gemm mxfp4_gemm_format(int inputs) {
  CodeTable table = {E2M1_BYTES};
  table.keep_apart(u32(inputs) >> 31);
  return {table};
}

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(mxfp4_gemm_c##COLUMNS, MXFP4Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, (mxfp4_gemm_format(inputs)))
GEMM_VARIANTS
