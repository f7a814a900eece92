// Prompts of experts in Q8_0.
#pragma once
#undef GEMM_VARIANTS
#define GEMM_VARIANTS  // none: those of expert_gemm.cuh
#include "q8_0_gemm.cuh"
#include "expert_gemm.cuh"

#define EXPERT_VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                 \
  EXPERT_GEMM_KERNEL(q8_0_expert_gemm_c##COLUMNS, Q80Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, {})
EXPERT_GEMM_VARIANTS
