// Products with Q4_K that are added to a residual stream, and its norm.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of normed_gemv.cuh
#include "q4_k.cuh"
#include "normed_gemv.cuh"

#define NORMED(COLUMNS, SPLIT) \
  NORMED_KERNEL(q4_k, COLUMNS, SPLIT, GEMV_BLOCKS(00068780, COLUMNS), Q4K, Q4K(threadIdx.x % 32))
NORMED_VARIANTS
