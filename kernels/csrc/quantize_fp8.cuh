// Rounds activations to FP8 (e4m3): bytes (columns, inputs), and single-precision scales.
#pragma once
#include "elements.cuh"

#define FP8_LARGEST 448.f
#define FP8_GROUP 128
// The scale of smaller inputs would lose its own bits; they are zeros for every purpose.
#define SMALLEST_FP8_INPUT 1e-30f

// To the nearest, ties to even; larger ones become the largest. NaN stays NaN. The conversion of sm_89
// is not in the code for sm_86, which runs there.
DEVICE u32 float_to_e4m3(float v) {
  const u32 bits = float_to_bits(v), sign = bits >> 24 & 0x80, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return 0x7f;
  if (size >= float_to_bits(FP8_LARGEST)) return sign | 0x7e;
  // Below 2^-6 neighbours are 2^-9 apart, as are floats from 2^14 on.
  if (size < 0x3c800000) return sign | (float_to_bits(bits_to_float(size) + 16384.f) - float_to_bits(16384.f));
  const u32 rounded = (size + 0x7ffff + (size >> 20 & 1)) >> 20;
  return sign | (rounded - ((127 - 7) << 3));
}

DEVICE u32 four_to_e4m3(float4 v, float scale) {
  return float_to_e4m3(v.x / scale) | float_to_e4m3(v.y / scale) << 8 | float_to_e4m3(v.z / scale) << 16 |
         float_to_e4m3(v.w / scale) << 24;
}

DEVICE float largest_of_four(float4 v) {
  return max_or_nan(max_or_nan(fabsf(v.x), fabsf(v.y)), max_or_nan(fabsf(v.z), fabsf(v.w)));
}

DEVICE float largest_of_lanes(float largest) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1)
    largest = max_or_nan(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
  return largest;
}

DEVICE float fp8_scale(float largest) { return largest < SMALLEST_FP8_INPUT ? 0.f : largest / FP8_LARGEST; }

DEVICE void store_four_e4m3(u8* codes, size_t place, float4 v, float scale) {
  *reinterpret_cast<u32*>(codes + place) = scale == 0.f ? 0 : four_to_e4m3(v, scale);
}

// A block takes a row of x (columns, inputs), whose largest magnitude decides its scale. Inputs are a
// multiple of four. Grid: columns.
extern "C" __global__ void __launch_bounds__(256) quantize_fp8_rows(
    const void* x, u8* __restrict__ codes, float* __restrict__ scales, int inputs, int type) {
  SHARED_ARRAY(float, found, 8);
  wait_for_previous_kernel();
  const size_t start = size_t(blockIdx.x) * inputs;
  float largest = 0.f;
  for (int i = threadIdx.x * 4; i < inputs; i += 1024)
    largest = max_or_nan(largest, largest_of_four(load_four(x, start + i, type)));
  largest = largest_of_lanes(largest);
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = largest;
  __syncthreads();
  const float scale = fp8_scale(largest_of_lanes(found[threadIdx.x % 8]));
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  let_next_kernel_begin();
  for (int i = threadIdx.x * 4; i < inputs; i += 1024)
    store_four_e4m3(codes, start + i, load_four(x, start + i, type), scale);
}
EXPORT_KERNEL(quantize_fp8_rows)

// With the scale of the model's file. Grid: columns, inputs / 1024 rounded up.
extern "C" __global__ void __launch_bounds__(256) quantize_fp8_fixed(
    const void* x, u8* __restrict__ codes, const float* __restrict__ scale, int inputs, int type) {
  const float fixed = *scale;
  wait_for_previous_kernel();
  const int i = blockIdx.y * 1024 + threadIdx.x * 4;
  if (i >= inputs) return;
  const size_t place = size_t(blockIdx.x) * inputs + i;
  const float4 v = load_four(x, place, type);
  let_next_kernel_begin();
  store_four_e4m3(codes, place, v, fixed);
}
EXPORT_KERNEL(quantize_fp8_fixed)

// A warp takes 128 inputs, whose largest magnitude decides their scale in `scales` (groups, columns).
// Grid: columns, groups / 8 rounded up.
extern "C" __global__ void __launch_bounds__(256) quantize_fp8_groups(
    const void* x, u8* __restrict__ codes, float* __restrict__ scales, int inputs, int type) {
  wait_for_previous_kernel();
  const int group = blockIdx.y * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (group >= inputs / FP8_GROUP) return;
  const size_t place = size_t(blockIdx.x) * inputs + group * FP8_GROUP + lane * 4;
  const float4 v = load_four(x, place, type);
  let_next_kernel_begin();
  const float scale = fp8_scale(largest_of_lanes(largest_of_four(v)));
  store_four_e4m3(codes, place, v, scale);
  if (lane == 0) scales[size_t(group) * gridDim.x + blockIdx.x] = scale;
}
EXPORT_KERNEL(quantize_fp8_groups)
