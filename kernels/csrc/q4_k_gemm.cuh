// Products of Q4_K weights on tensor cores: see k_gemm.cuh.
#pragma once
#include "k_gemm.cuh"

#define VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                        \
  GEMM_KERNEL(q4_k_gemm_c##COLUMNS, KGemm<4>, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
GEMM_VARIANTS

// Fewer stages, of which more blocks fit into the 100 KB that an SM of a GeForce card has for all.
#ifndef TWO_STAGES_VARIANTS
#define TWO_STAGES_VARIANTS TWO_STAGES(8, 1) TWO_STAGES(16, 2) TWO_STAGES(32, 4)
#endif
#define TWO_STAGES(COLUMNS, COLUMN_TILES) \
  GEMM_KERNEL(q4_k_gemm_two_c##COLUMNS, KGemm<4>, COLUMN_TILES, 1, 2, {})
TWO_STAGES_VARIANTS
