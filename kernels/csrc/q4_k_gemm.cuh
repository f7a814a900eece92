// Products of Q4_K weights on tensor cores: see k_gemm.cuh.
#pragma once
#include "k_gemm.cuh"

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q4_k_gemm_c##COLUMNS, KGemm<4>, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS
