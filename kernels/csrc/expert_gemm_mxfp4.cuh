// Prompts of experts in MXFP4.
#pragma once
#undef GEMM_VARIANTS
#define GEMM_VARIANTS  // none: those of expert_gemm.cuh
#include "mxfp4_gemm.cuh"
#include "expert_gemm.cuh"

#define EXPERT_VARIANT(COLUMNS, COLUMN_TILES, COLUMN_WARPS, STAGES)                                 \
  EXPERT_GEMM_KERNEL(mxfp4_expert_gemm_c##COLUMNS, MXFP4Gemm, COLUMN_TILES, COLUMN_WARPS, STAGES, (mxfp4_gemm_format(inputs)))
EXPERT_GEMM_VARIANTS
