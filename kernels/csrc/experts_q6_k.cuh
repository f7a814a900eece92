// Experts in Q6_K.
#pragma once
#undef GEMV_VARIANTS
#define GEMV_VARIANTS  // none: those of expert_gemv.cuh
#include "q6_k.cuh"
#include "expert_gemv.cuh"

#define EXPERTS(SPLIT) EXPERT_KERNEL(q6_k, SPLIT, Q6K, Q6K(threadIdx.x % 32, inputs))
EXPERT_VARIANTS
