// The rotation of kernels/kv_cache/hadamard.py, in the order that is part of its contract.
#pragma once
#include "portable.cuh"

// Of a block of 8, 16 or 32 elements, four in each of lanes that follow one another: the first lane
// is a multiple of block / 4. All lanes of a warp call it. Two steps need no other lane.
DEVICE void hadamard(float (&x)[4], int block, int lane) {
  const float a = x[0] + x[1], b = x[0] - x[1], c = x[2] + x[3], d = x[2] - x[3];
  x[0] = a + c, x[1] = b + d, x[2] = a - c, x[3] = b - d;
  for (int step = 4; step < block; step *= 2) {
    const bool upper = lane & step / 4;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float other = __shfl_xor_sync(EVERY_LANE, x[k], step / 4);
      x[k] = upper ? other - x[k] : x[k] + other;
    }
  }
  // block ** -0.5
  const float scale = block == 32 ? 0.17677669529663687f : block == 16 ? 0.25f : 0.35355339059327379f;
#pragma unroll
  for (int k = 0; k < 4; ++k) x[k] = rounded_product(x[k], scale);
}
