// Sums over the lanes of a warp.
#pragma once
#include "portable.cuh"

// Sums `COUNT` values (a power of two, at most 32) over all lanes; lane l ends with the sum of value
// l / (32 / COUNT) in values[0]. Each round halves the values a lane carries: COUNT + 4 shuffles at
// most, where one butterfly after the other would take 5 COUNT.
template <int COUNT, int OFFSET = 16>
DEVICE void sum_over_lanes(float (&values)[COUNT]) {
  if constexpr (COUNT == 1) {
#pragma unroll
    for (int offset = OFFSET; offset; offset >>= 1) values[0] += __shfl_xor_sync(EVERY_LANE, values[0], offset);
  } else {
    const bool upper = threadIdx.x & OFFSET;
    float kept[COUNT / 2];
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      const float sent = upper ? values[i] : values[i + COUNT / 2];
      kept[i] = (upper ? values[i + COUNT / 2] : values[i]) + __shfl_xor_sync(EVERY_LANE, sent, OFFSET);
    }
    sum_over_lanes<COUNT / 2, OFFSET / 2>(kept);
    values[0] = kept[0];
  }
}

// The next power of two.
DEVICE constexpr int power_of_two_from(int count) { return count <= 1 ? 1 : 2 * power_of_two_from((count + 1) / 2); }
