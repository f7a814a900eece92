// Products of Q5_0 weights on tensor cores: see block32_gemm.cuh.
#pragma once
#include "block32_gemm.cuh"

typedef Block32Gemm<5, false> Q50Gemm;

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q5_0_gemm_c##COLUMNS, Q50Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS
