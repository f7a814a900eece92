// Puts the parts of split attention together, rotates them back, and leaves them as the product after
// them wants them. See kernels/attention/attention_combine.py.
#pragma once
#include "hadamard.cuh"
#include "head.cuh"
#include "store_q8.cuh"

#define MOST_SPLITS 128
#define MOST_HEADS 4
#define COMBINE_THREADS 256

// One row's share of each split, zero where a split saw nothing; infinity in the first one where the
// row is whole already. A warp's work.
DEVICE void find_shares(float* shares, const float* log_sums, size_t rows, int splits, int lane) {
  const float none = bits_to_float(0xff800000u);
  float logs[MOST_SPLITS / 32], largest = none, sum = 0.f;
#pragma unroll
  for (int i = 0; i < MOST_SPLITS / 32; ++i) {
    const int split = lane + 32 * i;
    logs[i] = split < splits ? log_sums[split * rows] : none;
    largest = max_or_nan(largest, logs[i]);
  }
  const bool whole = __shfl_sync(EVERY_LANE, logs[0], 0) == -none;
#pragma unroll
  for (int offset = 16; offset; offset /= 2) largest = max_or_nan(largest, __shfl_xor_sync(EVERY_LANE, largest, offset));
#pragma unroll
  for (int i = 0; i < MOST_SPLITS / 32; ++i) {
    logs[i] = logs[i] == none ? 0.f : expf(logs[i] - largest);
    sum += logs[i];
  }
#pragma unroll
  for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(EVERY_LANE, sum, offset);
#pragma unroll
  for (int i = 0; i < MOST_SPLITS / 32; ++i) {
    const int split = lane + 32 * i;
    if (split < splits) shares[split] = whole ? -none : sum == 0.f ? 0.f : logs[i] / sum;
  }
}

// outputs (splits, tokens, heads, size), log_sums (splits, tokens, heads) or null; dense (tokens,
// heads, size) of `type`, which is not written unless it is `kept`; tiles as in q8_tile.cuh, or null.
//
// A block has `bundle` heads of a token, so many that they are whole groups of 32 elements; a thread
// has a quad of these in every `slices`-th split. Grid: tokens, heads / bundle. Threads: slices *
// bundle * size / 4, rounded up to a warp.
extern "C" __global__ void __launch_bounds__(COMBINE_THREADS) attention_combine(
    const float* outputs, const float* log_sums, void* dense, u8* tiles, int splits, int heads, int size,
    int bundle, int slices, int type, int rotated, int kept) {
  SHARED_ARRAY(float, shares, MOST_HEADS * MOST_SPLITS);
  SHARED_ARRAY(float4, parts, COMBINE_THREADS);
  const int lane = threadIdx.x % 32, token = blockIdx.x, quads = bundle * size / 4;
  const int slice = threadIdx.x / quads, quad = threadIdx.x % quads, head = 4 * quad / size;
  const size_t rows = size_t(gridDim.x) * heads, row = size_t(token) * heads + blockIdx.y * bundle;
  wait_for_previous_kernel();
  if (log_sums) {
    for (int i = threadIdx.x / 32; i < bundle; i += blockDim.x / 32)
      find_shares(shares + i * MOST_SPLITS, log_sums + row + i, rows, splits, lane);
    __syncthreads();
  }
  const float* const own = shares + head * MOST_SPLITS;
  float x[4] = {0.f, 0.f, 0.f, 0.f};
  if (!log_sums || *own == bits_to_float(0x7f800000u)) {
    if (slice == 0) load_quad(x, dense, row * size + 4 * quad, type);
  } else if (slice < slices) {
    const float* const from = outputs + row * size + 4 * quad;
#pragma unroll 4
    for (int split = slice; split < splits; split += slices) {
      const float share = own[split];
      float part[4] = {0.f, 0.f, 0.f, 0.f};  // a split that saw nothing has written nothing
      if (share != 0.f) load_quad(part, from, split * rows * size, ELEMENT_F32);
#pragma unroll
      for (int k = 0; k < 4; ++k) x[k] += share * part[k];
    }
  }
  let_next_kernel_begin();
  if (slices > 1) {
    parts[threadIdx.x] = make_float4(x[0], x[1], x[2], x[3]);
    __syncthreads();
    if (slice == 0) {
      for (int i = 1; i < slices; ++i) {
        const float4 part = parts[i * quads + quad];
        x[0] += part.x, x[1] += part.y, x[2] += part.z, x[3] += part.w;
      }
    }
  }
  if (int(threadIdx.x) - lane >= quads) return;
  const bool inside = slice == 0;
  if (rotated) hadamard(x, min(32, size & -size), lane);
  if (kept && inside) store_quad(dense, row * size + 4 * quad, x, type);
  if (tiles)
    store_q8(tiles, gridDim.x, token, int(blockIdx.y) * bundle * size + 4 * quad, make_float4(x[0], x[1], x[2], x[3]), inside);
}
EXPORT_KERNEL(attention_combine)
