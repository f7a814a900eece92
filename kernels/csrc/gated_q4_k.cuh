// Gate and up of Q4_K in one launch.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of gated_gemv.cuh
#include "q4_k.cuh"
#include "gated_gemv.cuh"

#define GATED(COLUMNS, SPLIT) \
  GATED_KERNEL(q4_k, COLUMNS, SPLIT, GEMV_BLOCKS(06770780, COLUMNS), Q4K, Q4K(threadIdx.x % 32))
GATED_VARIANTS
