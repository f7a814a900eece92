// Prompts of experts in Q4_K.
#pragma once
#undef GEMM_VARIANTS
#define GEMM_VARIANTS  // none: those of expert_gemm.cuh
#undef TWO_STAGES_VARIANTS
#define TWO_STAGES_VARIANTS
#include "q4_k_gemm.cuh"
#include "expert_gemm.cuh"

#define EXPERT_VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                 \
  EXPERT_GEMM_KERNEL(q4_k_expert_gemm_c##COLUMNS, KGemm<4>, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
EXPERT_GEMM_VARIANTS
