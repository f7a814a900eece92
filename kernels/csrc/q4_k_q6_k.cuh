// Q4_K and Q6_K in one launch.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of paired_gemv.cuh
#include "paired_gemv.cuh"
#include "q4_k.cuh"
#undef VARIANT
#include "q6_k.cuh"

// Bounds without which the compiler makes room for one more block and spills a register for it.
#define PAIRED(ROWS, COLUMNS, SPLIT)                                                              \
  PAIRED_KERNEL(q4_k_q6_k, ROWS, COLUMNS, SPLIT, GEMV_BLOCKS(04005000, COLUMNS), Q4K,              \
                Q4K(threadIdx.x % 32), Q6K, Q6K(threadIdx.x % 32, inputs))
PAIRED_VARIANTS
