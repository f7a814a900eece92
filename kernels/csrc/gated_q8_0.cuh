// Gate and up of Q8_0 in one launch.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of gated_gemv.cuh
#include "q8_0.cuh"
#include "gated_gemv.cuh"

#define GATED(COLUMNS, SPLIT) \
  GATED_KERNEL(q8_0, COLUMNS, SPLIT, GEMV_BLOCKS(70700800, COLUMNS), Q80, {int(threadIdx.x % 32)})
GATED_VARIANTS
