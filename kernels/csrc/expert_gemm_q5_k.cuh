// Prompts of experts in Q5_K.
#pragma once
#undef GEMM_VARIANTS
#define GEMM_VARIANTS  // none: those of expert_gemm.cuh
#include "q5_k_gemm.cuh"
#include "expert_gemm.cuh"

#define EXPERT_VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                 \
  EXPERT_GEMM_KERNEL(q5_k_expert_gemm_c##COLUMNS, KGemm<5>, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
EXPERT_GEMM_VARIANTS
