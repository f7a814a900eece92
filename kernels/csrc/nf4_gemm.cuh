// Products of NF4 weights (nf4.cuh says how they lie in memory) on tensor cores, with a byte for each of
// the sixteen values.
#pragma once
#include "code_gemm.cuh"

// A row of a slab: 16 bytes of codes for each of its groups, the 4 bytes in which their two scales are.
struct NF4Gemm {
  static constexpr bool SIGNED = true, MINIMA = false, HALVES = false;
  static constexpr int ROW_BYTES = 80, TILE_BYTES = 528;
  CodeTable table;
  const float *values, *group_absmax;
  float offset;
  u32 row_blocks;

  template <class Rows>
  DEVICE void copy(const Rows& rows, const GemmSlab& at, u8* shared) const {
    const int tile = at.tile * TILE_BYTES;
    rows.template copy<16, 4, ROW_BYTES>(shared, tile + at.group * 16, at.valid);
    rows.template copy<4, 1, ROW_BYTES>(shared + 64, tile + at.groups * 16 + at.group / 8 * 4);
  }

  DEVICE void load(u32 (&a)[2][4], const u8* rows, int pair) const { load_codes<ROW_BYTES>(table, a, rows, pair); }

  DEVICE float2 scale(const u8* row, const GemmSlab& at, int group, int number) const {
    if (group >= at.valid) return make_float2(0.f, 0.f);
    const u32 block = u32(number) * row_blocks + u32(at.tile * 16 + (at.group + group) / 2);
    const float absmax = values[row[64 + (at.group & 4) / 2 + group / 2]] * group_absmax[block / 256] + offset;
    return make_float2(absmax * (1.f / NF4_BYTE_SCALE), 0.f);
  }
};

DEVICE NF4Gemm nf4_gemm_format(const float* values, const float* group_absmax, const float* offset, int inputs) {
  CodeTable table = {NF4_BYTES};
  table.keep_apart(u32(inputs) >> 31);
  return {table, values, group_absmax, *offset, u32(inputs) / 64};
}

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  extern "C" __global__ void GEMM_BOUNDS(COLUMN_TILES, COLUMN_WARPS) nf4_gemm_c##COLUMNS(         \
      GEMM_PARAMETERS, const float* __restrict__ values, const float* __restrict__ group_absmax,  \
      const float* __restrict__ offset) {                                                         \
    const NF4Gemm format = nf4_gemm_format(values, group_absmax, offset, inputs);                 \
    gemm<NF4Gemm, GemmShape<COLUMN_TILES, COLUMN_WARPS, STAGES>>(format, GEMM_ARGUMENTS);         \
  }                                                                                               \
  EXPORT_KERNEL(nf4_gemm_c##COLUMNS)
GEMM_VARIANTS
