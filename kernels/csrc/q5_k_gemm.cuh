// Products of Q5_K weights on tensor cores: see k_gemm.cuh.
#pragma once
#include "k_gemm.cuh"

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q5_k_gemm_c##COLUMNS, KGemm<5>, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS
