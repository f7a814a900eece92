// Products of Q5_1 weights on tensor cores: see block32_gemm.cuh.
#pragma once
#include "block32_gemm.cuh"

typedef Block32Gemm<5, true> Q51Gemm;

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q5_1_gemm_c##COLUMNS, Q51Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS
