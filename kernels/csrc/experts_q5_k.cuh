// Experts in Q5_K.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of expert_gemv.cuh
#include "q5_k.cuh"
#include "expert_gemv.cuh"

#define EXPERTS(SPLIT) EXPERT_KERNEL(q5_k, SPLIT, Q5K, Q5K(threadIdx.x % 32))
EXPERT_VARIANTS
