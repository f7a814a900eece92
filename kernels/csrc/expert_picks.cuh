// What becomes of the picks of a mixture of experts before their products and after them: rows sorted
// by expert, and a token's weighted sum.
#pragma once
#include "elements.cuh"

#define MOST_EXPERTS 1024
#define PICK_WARPS 8

DEVICE int count_ones(u32 bits) {
  bits -= bits >> 1 & 0x55555555u;
  bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
  return int(((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}

// Sums of what comes before, over at most MOST_EXPERTS values in shared memory; a warp's work.
DEVICE void sum_of_those_before(int* values, int count, int lane) {
  int before = 0;
  for (int first = 0; first < count; first += 32) {
    const int own = first + lane < count ? values[first + lane] : 0;
    int sum = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int other = __shfl_up_sync(EVERY_LANE, sum, offset);
      if (lane >= offset) sum += other;
    }
    if (first + lane < count) values[first + lane] = before + sum - own;
    before += __shfl_sync(EVERY_LANE, sum, 31);
  }
  if (lane == 0) values[count] = before;
}

// picked (picks,) are numbers of `count` experts, each `used` of them of one token. Rows come in blocks of
// `wide`, of which an expert has as many as its picks need, in their order. experts (1 + most,): how many
// blocks there are, and the expert of each; tokens (most * wide,): of each row, 0 where there is none;
// rows (picks,): of each pick. What is left of `most` blocks is the last expert's.
//
// A warp takes an expert, and every block counts all of them. Grid: count / 8 rounded up.
extern "C" __global__ void __launch_bounds__(32 * PICK_WARPS) sort_picks(
    const long long* picked, int* __restrict__ experts, long long* __restrict__ tokens, long long* __restrict__ rows,
    int picks, int used, int count, int wide, int most) {
  SHARED_ARRAY(int, sizes, MOST_EXPERTS);
  SHARED_ARRAY(int, starts, MOST_EXPERTS + 1);  // in blocks
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, expert = blockIdx.x * PICK_WARPS + warp;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sizes[i] = 0;
  __syncthreads();
  wait_for_previous_kernel();
  for (int i = threadIdx.x; i < picks; i += blockDim.x) atomicAdd(sizes + int(picked[i]), 1);
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) starts[i] = (sizes[i] + wide - 1) / wide;
  __syncthreads();
  if (warp == 0) sum_of_those_before(starts, count, lane);
  __syncthreads();
  let_next_kernel_begin();
  const int blocks = starts[count];
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) experts[0] = blocks;
    for (int i = blocks + threadIdx.x; i < most; i += blockDim.x) experts[1 + i] = count - 1;
    for (int i = blocks * wide + threadIdx.x; i < most * wide; i += blockDim.x) tokens[i] = 0;
  }
  if (expert >= count) return;
  const int first = starts[expert], end = starts[expert + 1];
  for (int i = first + lane; i < end; i += 32) experts[1 + i] = expert;
  for (int i = first * wide + sizes[expert] + lane; i < end * wide; i += 32) tokens[i] = 0;
  int place = first * wide;
  for (int i = lane; i - lane < picks && place < first * wide + sizes[expert]; i += 32) {
    const bool own = i < picks && picked[i] == expert;
    const u32 all = __ballot_sync(EVERY_LANE, own);
    if (own) {
      const int row = place + count_ones(all & ((1u << lane) - 1));
      rows[i] = row;
      tokens[row] = i / used;
    }
    place += count_ones(all);
  }
}
EXPORT_KERNEL(sort_picks)

// out (tokens, size): the products (rows, size) of each token's `used` picks, times their weights, in
// order; one without weight adds nothing, even where its products overflowed. With `sorted` a pick's row is
// in `rows`, else they follow one another. Sizes are a multiple of four. Grid: tokens, size / 1024 rounded up.
extern "C" __global__ void __launch_bounds__(256) sum_picks(
    const float* products, const long long* rows, const float* weights, float* __restrict__ out, int used, int size,
    int sorted) {
  const int first = blockIdx.y * 1024 + threadIdx.x * 4;
  if (first >= size) return;
  wait_for_previous_kernel();
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 4
  for (int i = 0; i < used; ++i) {
    const size_t pick = size_t(blockIdx.x) * used + i, row = sorted ? size_t(rows[pick]) : pick;
    const float weight = weights[pick];
    if (weight == 0.f) continue;
    const float4 v = load_four(products, row * size + first, ELEMENT_F32);
    // Rounded one after the other, as in plain torch.
    sum = make_float4(sum.x + rounded_product(v.x, weight), sum.y + rounded_product(v.y, weight),
                      sum.z + rounded_product(v.z, weight), sum.w + rounded_product(v.w, weight));
  }
  let_next_kernel_begin();
  store_four(out, size_t(blockIdx.x) * size + first, sum, ELEMENT_F32);
}
EXPORT_KERNEL(sum_picks)
