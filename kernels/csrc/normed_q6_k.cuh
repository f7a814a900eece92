// Products with Q6_K that are added to a residual stream, and its norm.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of normed_gemv.cuh
#include "q6_k.cuh"
#include "normed_gemv.cuh"

#define NORMED(COLUMNS, SPLIT) \
  NORMED_KERNEL(q6_k, COLUMNS, SPLIT, GEMV_BLOCKS(77777500, COLUMNS), Q6K, Q6K(threadIdx.x % 32, inputs))
NORMED_VARIANTS
