// Gate and up of Q6_K in one launch.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of gated_gemv.cuh
#include "q6_k.cuh"
#include "gated_gemv.cuh"

#define GATED(COLUMNS, SPLIT) \
  GATED_KERNEL(q6_k, COLUMNS, SPLIT, GEMV_BLOCKS(07007060, COLUMNS), Q6K, Q6K(threadIdx.x % 32, inputs))
GATED_VARIANTS
