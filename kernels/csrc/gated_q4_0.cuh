// Gate and up of Q4_0 in one launch.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of gated_gemv.cuh
#include "q4_0.cuh"
#include "gated_gemv.cuh"

typedef Block32<4, false> Block4;

#define GATED(COLUMNS, SPLIT) \
  GATED_KERNEL(q4_0, COLUMNS, SPLIT, GEMV_BLOCKS(00000050, COLUMNS), Block4, {int(threadIdx.x % 32)})
GATED_VARIANTS
