// Products that are added to a residual stream, and the norm of its rows, in one launch.
//
// The block that ends last normalises: a count says which one that is, and is back at zero at the end, so
// that a graph can replay it. Sums of squares are in the order of rms_norm.cuh, so that results are the
// same bits: a thread has the parts of several of that kernel's threads, one after the other.
//
// A file normed_<type>.cuh includes the type's own one, without its kernels, and this; then it says
// NORMED_KERNEL(...) for each of NORMED_VARIANTS.
#pragma once
#include "gemv.cuh"
#include "store_q8.cuh"

#define MOST_NORM_WARPS 32

struct RowNorm {
  const float* weight;  // (size,)
  void* dense;          // (columns, size) of an element type, or null
  u8* tiles;            // of the results, or null
  u32* count;           // a zero
  int dense_type, threads, vectors;  // of the block of rms_norm.cuh for such rows
  float epsilon;
};

DEVICE float4 load_sums(const float* row, int first, int size) {
  if (first >= size) return make_float4(0.f, 0.f, 0.f, 0.f);
  const uint4 v = load_fresh_16(row + first);
  return make_float4(bits_to_float(v.x), bits_to_float(v.y), bits_to_float(v.z), bits_to_float(v.w));
}

DEVICE float sum_of_lanes(float sum) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(EVERY_LANE, sum, offset);
  return sum;
}

// A block's work.
DEVICE void normalize_row(const RowNorm& norm, const float* row, int size, int columns, int column) {
  SHARED_ARRAY(float, sums, MOST_NORM_WARPS);
  const int lane = threadIdx.x % 32, warps = norm.threads / 32;
  for (int warp = threadIdx.x / 32; warp < warps; warp += GEMV_WARPS) {
    float sum = 0.f;
    for (int i = 0; i < norm.vectors; ++i) {
      const float4 v = load_sums(row, (i * norm.threads + warp * 32 + lane) * 4, size);
      sum += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
    }
    sum = sum_of_lanes(sum);
    if (lane == 0) sums[warp] = sum;
  }
  __syncthreads();
  const float scale = 1.f / sqrtf(sum_of_lanes(lane < warps ? sums[lane] : 0.f) / float(size) + norm.epsilon);
  for (int base = threadIdx.x / 32 * 128; base < size; base += GEMV_THREADS * 4) {
    const int first = base + lane * 4;
    const bool inside = first < size;
    float4 v = load_sums(row, first, size), w = make_float4(0.f, 0.f, 0.f, 0.f);
    if (inside) w = load_four(norm.weight, first, ELEMENT_F32);
    v = make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
    if (norm.dense && inside) store_four(norm.dense, size_t(column) * size + first, v, norm.dense_type);
    if (norm.tiles) store_q8(norm.tiles, columns, column, first, v, inside);
  }
  __syncthreads();  // the next row's sums take the place of these
}

template <class Format, int COLUMNS, int SPLIT>
DEVICE void normed_gemv(const Format& format, const GemvArguments& a, const RowNorm& norm) {
  SHARED_ARRAY(u32, arrived, 1);
  gemv<Format, 2, COLUMNS, SPLIT>(format, a);
  __syncthreads();
  if (threadIdx.x == 0) arrived[0] = count_in_memory(norm.count, gridDim.x - 1);
  __syncthreads();
  if (arrived[0] != gridDim.x - 1) return;
  __threadfence();
#pragma unroll 1
  for (int column = 0; column < COLUMNS; ++column)
    normalize_row(norm, static_cast<const float*>(a.epilogue.y) + size_t(column) * a.epilogue.stride, a.rows, COLUMNS, column);
}

#define NORM_PARAMETERS                                                                           \
  const float *__restrict__ norm_weight, void *__restrict__ dense, u8 *__restrict__ normed, u32 *count, int dense_type, \
      int norm_threads, int vectors, float epsilon
#define NORM_ARGUMENTS {norm_weight, dense, normed, count, dense_type, norm_threads, vectors, epsilon}

// `value` is what makes a Format; a processor has to have room for so many blocks.
#define NORMED_KERNEL(NAME, COLUMNS, SPLIT, BLOCKS, Format, ...)                                  \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS, BLOCKS)                              \
      NAME##_normed_c##COLUMNS##_s##SPLIT(GEMV_PARAMETERS, NORM_PARAMETERS) {                     \
    normed_gemv<Format, COLUMNS, SPLIT>(__VA_ARGS__, GEMV_ARGUMENTS, NORM_ARGUMENTS);             \
  }                                                                                               \
  EXPORT_KERNEL(NAME##_normed_c##COLUMNS##_s##SPLIT)

// NORMED(COLUMNS, SPLIT). One block has all rows of the norm, which takes too long for more of them.
#define NORMED_VARIANTS NORMED(1, 1) NORMED(1, 4) NORMED(2, 1) NORMED(2, 4)
