// Cosines and sines of positions times frequencies, as far as text can reach.
//
// At position 1,000,000 a product in single precision is off by 0.03 radians. Here it is one in double
// precision, exact for positions below 2^29; so is what is left of it after whole quarters of a turn.
// The rest, an eighth of a turn at most to either side, is for short series in single precision.
#pragma once
#include "portable.cuh"

#define TABLE_WARPS 4

// The series of sine and cosine, to 2e-9 and 3e-8 at an eighth of a turn.
DEVICE float sine_near_zero(float x) {
  const float z = x * x;
  const float rest = fmaf(z, fmaf(z, fmaf(z, 2.7557319e-6f, -1.9841270e-4f), 8.3333333e-3f), -0.16666667f);
  return fmaf(rounded_product(rest, z), x, x);
}

DEVICE float cosine_near_zero(float x) {
  const float z = x * x;
  const float rest = fmaf(z, fmaf(z, fmaf(z, 2.4801587e-5f, -1.3888889e-3f), 4.1666667e-2f), -0.5f);
  return fmaf(rest, z, 1.f);
}

// cosine, sine (tokens, pairs) of positions (tokens,) times frequencies (pairs,), times `scale`. A
// warp has a token. Grid: tokens / 4 rounded up.
extern "C" __global__ void __launch_bounds__(32 * TABLE_WARPS) rotary_tables(
    const long long* positions, const float* __restrict__ frequencies, float* cosine, float* sine,
    int tokens, int pairs, float scale) {
  const size_t token = size_t(blockIdx.x) * TABLE_WARPS + threadIdx.x / 32;
  if (token >= size_t(tokens)) return;
  wait_for_previous_kernel();
  const double position = double(positions[token]);
  let_next_kernel_begin();
  for (int pair = threadIdx.x % 32; pair < pairs; pair += 32) {
    const double angle = position * double(frequencies[pair]);
    const double quarters = rint(angle * 0.63661977236758134);
    const float rest = float(fma(quarters, -1.5707963267948966, angle));
    const float s = sine_near_zero(rest), c = cosine_near_zero(rest);
    const int quarter = int((long long)quarters & 3);
    const float a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;
    cosine[token * pairs + pair] = (quarter == 1 || quarter == 2 ? -a : a) * scale;
    sine[token * pairs + pair] = (quarter & 2 ? -b : b) * scale;
  }
}
EXPORT_KERNEL(rotary_tables)
