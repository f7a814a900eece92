// Experts in Q4_K.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of expert_gemv.cuh
#include "q4_k.cuh"
#include "expert_gemv.cuh"

#define EXPERTS(SPLIT) EXPERT_KERNEL(q4_k, SPLIT, Q4K, Q4K(threadIdx.x % 32))
EXPERT_VARIANTS
