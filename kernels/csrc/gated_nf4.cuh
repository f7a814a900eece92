// Gate and up of NF4 in one launch. Each matrix has its own scales of scales; the sixteen values are one
// table for both.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of gated_gemv.cuh
#include "nf4.cuh"
#include "gated_gemv.cuh"

#define GATED(COLUMNS, SPLIT)                                                                     \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, COLUMNS == 7 ? 4 : COLUMNS > 4 ? 6 : 0) \
      nf4_gated_c##COLUMNS##_s##SPLIT(GATED_PARAMETERS, NF4_PARAMETERS, const float* __restrict__ up_values, \
                                      const float* __restrict__ up_group_absmax, const float* __restrict__ up_offset) { \
    const NF4<false> first = nf4_format<false>(values, group_absmax, offset, inputs);             \
    const NF4<false> second = {first.high, first.low, up_values, up_group_absmax, *up_offset, first.lane, first.row_blocks}; \
    gated_gemv<NF4<false>, COLUMNS, SPLIT>(first, second, GATED_ARGUMENTS);                       \
  }                                                                                               \
  EXPORT_KERNEL(nf4_gated_c##COLUMNS##_s##SPLIT)
GATED_VARIANTS
