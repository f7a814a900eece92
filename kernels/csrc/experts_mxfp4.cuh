// Experts in MXFP4.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of expert_gemv.cuh
#include "mxfp4.cuh"
#include "expert_gemv.cuh"

#define EXPERTS(SPLIT) EXPERT_KERNEL(mxfp4, SPLIT, MXFP4, mxfp4_format(inputs))
EXPERT_VARIANTS
