// Prompts of experts in Q6_K.
#pragma once
#undef GEMM_VARIANTS
#define GEMM_VARIANTS  // none: those of expert_gemm.cuh
#undef TWO_STAGES_VARIANTS
#define TWO_STAGES_VARIANTS
#include "q6_k_gemm.cuh"
#include "expert_gemm.cuh"

#define EXPERT_VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                 \
  EXPERT_GEMM_KERNEL(q6_k_expert_gemm_c##COLUMNS, Q6KGemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {inputs / 256})
EXPERT_GEMM_VARIANTS
