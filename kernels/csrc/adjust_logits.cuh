// Changes single logits of some rows: bias, then penalties, then what repetitions cost.
#pragma once
#include "portable.cuh"

#define ADJUSTMENTS 3  // kinds, in the order in which they are made

DEVICE float adjusted(float logit, int kind, float2 values) {
  if (kind == 0) return rounded_sum(logit, values.x);
  if (kind == 2) return rounded_sum(logit, -values.x);
  // Negative logits are multiplied, so that a penalty never helps.
  return rounded_sum(logit <= 0.f ? rounded_product(logit, values.x) : logit / values.x, -values.y);
}

// A block for each row: entries offsets[kind · (rows + 1) + row] up to the next are its own, each of
// another token.
extern "C" __global__ void __launch_bounds__(128) adjust_logits(
    float* logits, const int* __restrict__ offsets, const int* __restrict__ tokens,
    const float2* __restrict__ values, int stride) {
  wait_for_previous_kernel();
  let_next_kernel_begin();
  float* const row = logits + size_t(blockIdx.x) * stride;
  for (int kind = 0; kind < ADJUSTMENTS; ++kind) {
    const int* const own = offsets + kind * (gridDim.x + 1) + blockIdx.x;
    for (int i = own[0] + int(threadIdx.x); i < own[1]; i += blockDim.x)
      row[tokens[i]] = adjusted(row[tokens[i]], kind, values[i]);
    __syncthreads();  // the next kind may change the same logits
  }
}
EXPORT_KERNEL(adjust_logits)
