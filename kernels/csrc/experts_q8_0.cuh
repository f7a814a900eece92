// Experts in Q8_0.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of expert_gemv.cuh
#include "q8_0.cuh"
#include "expert_gemv.cuh"

#define EXPERTS(SPLIT) EXPERT_KERNEL(q8_0, SPLIT, Q80, Q80{int(threadIdx.x % 32)})
EXPERT_VARIANTS
