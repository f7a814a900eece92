// The inputs of a decoding step with one token a sequence, from what the host sent or from the step before.
#pragma once
#include "sample_row.cuh"

// One block. The host sends `is_continued` as 0 with all other inputs: tokens are then those of `known`
// at `origins`. Until it sends inputs again, each launch moves every sequence on to the token drawn last.
// Rows without a length are padding, and stay as they are.
extern "C" __global__ void __launch_bounds__(128) continue_step(
    const long long* known, const long long* origins, const long long* drawn, long long* token_ids,
    long long* positions, long long* slots, int* lengths, const int* __restrict__ tables,
    int* is_continued, SampleRow* rows, int count, int pages, int page_bits) {
  wait_for_previous_kernel();
  const bool follows = *is_continued != 0;
  __syncthreads();  // all have read it
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    if (!follows) {
      token_ids[i] = known[origins[i]];
    } else if (lengths[i]) {
      const int position = lengths[i]++;
      token_ids[i] = drawn[i];
      positions[i] = position;
      const int page = tables[size_t(i) * pages + (position >> page_bits)], place = position & ((1 << page_bits) - 1);
      slots[i] = ((long long)page << page_bits) + place;
      ++rows[i].place;
    }
  }
  if (threadIdx.x == 0) *is_continued = 1;
  let_next_kernel_begin();
}
EXPORT_KERNEL(continue_step)
