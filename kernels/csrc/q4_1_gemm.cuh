// Products of Q4_1 weights on tensor cores: see block32_gemm.cuh.
#pragma once
#include "block32_gemm.cuh"

typedef Block32Gemm<4, true> Q41Gemm;

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q4_1_gemm_c##COLUMNS, Q41Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS
