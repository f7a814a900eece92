// Gate and up of Q5_K in one launch.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of gated_gemv.cuh
#include "q5_k.cuh"
#include "gated_gemv.cuh"

#define GATED(COLUMNS, SPLIT) \
  GATED_KERNEL(q5_k, COLUMNS, SPLIT, GEMV_BLOCKS(05000080, COLUMNS), Q5K, Q5K(threadIdx.x % 32))
GATED_VARIANTS
