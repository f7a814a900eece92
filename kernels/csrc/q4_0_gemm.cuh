// Products of Q4_0 weights on tensor cores: see block32_gemm.cuh.
#pragma once
#include "block32_gemm.cuh"

typedef Block32Gemm<4, false> Q40Gemm;

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q4_0_gemm_c##COLUMNS, Q40Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS
