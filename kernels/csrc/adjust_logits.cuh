// Changes single logits of some rows: bias, then penalties, then what repetitions cost.
#pragma once
#include "portable.cuh"

#define BIAS 0
#define PENALTY 1
#define REPETITION 2

DEVICE float adjusted(float logit, int kind, float number, float taken) {
  if (kind == BIAS) return rounded_sum(logit, number);
  if (kind == REPETITION) return rounded_sum(logit, -number);
  // Negative logits are multiplied, so that a penalty never helps.
  return rounded_sum(logit <= 0.f ? rounded_product(logit, number) : logit / number, -taken);
}

// A block for each row: entries offsets[kind · (rows + 1) + row] up to the next are its own, each of
// another token and with three numbers.
//
// Where `awaited` is given and a row's is not -1, drawn[awaited[row]] was said once more than the
// entries know: its third number is what is taken off then, or both of `first[row]` if it has none.
extern "C" __global__ void __launch_bounds__(128) adjust_logits(
    float* logits, const int* __restrict__ offsets, const int* __restrict__ tokens,
    const float* __restrict__ values, const int* __restrict__ awaited, const float2* __restrict__ first,
    const long long* drawn, int stride) {
  SHARED_ARRAY(int, has_entry, 1);
  wait_for_previous_kernel();
  let_next_kernel_begin();
  float* const row = logits + size_t(blockIdx.x) * stride;
  const int place = awaited ? awaited[blockIdx.x] : -1, said = place < 0 ? -1 : int(drawn[place]);
  if (threadIdx.x == 0) has_entry[0] = 0;
  for (int kind = BIAS; kind <= REPETITION; ++kind) {
    __syncthreads();  // the kind before may have changed the same logits
    const int* const own = offsets + kind * (gridDim.x + 1) + blockIdx.x;
    for (int i = own[0] + int(threadIdx.x); i < own[1]; i += blockDim.x) {
      const int token = tokens[i];
      const bool again = kind == PENALTY && token == said;
      if (again) has_entry[0] = 1;
      row[token] = adjusted(row[token], kind, values[3 * i], values[3 * i + (again ? 2 : 1)]);
    }
    if (kind != PENALTY || said < 0) continue;
    __syncthreads();
    if (threadIdx.x == 0 && !has_entry[0])
      row[said] = adjusted(row[said], PENALTY, first[blockIdx.x].x, first[blockIdx.x].y);
  }
}
EXPORT_KERNEL(adjust_logits)
