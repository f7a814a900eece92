// Rows brought to length: of the residual stream before a projection, of a projection before it is
// added to the residual stream, or both one after the other.
//
// A block takes a row, reads it once and keeps it in registers: VECTORS times four neighbours a
// thread, a distance of four times the threads apart. Sums of squares go through the lanes of a
// warp, then once through shared memory.
#pragma once
#include "elements.cuh"
#include "store_q8.cuh"

#define RMS_NORM_WARPS 32

struct RmsNormRows {
  const void* rows;
  int stride, type;     // from row to row, in elements of the type
  const float* weight;  // (size,), or null
};

DEVICE float sum_of_squares(float4 v) { return v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w); }

template <int VECTORS>
struct RowPart {
  float4 v[VECTORS];

  DEVICE static int first(int i) { return (i * blockDim.x + threadIdx.x) * 4; }

  DEVICE void load(const void* from, size_t start, int type, int size) {
    if (type == ELEMENT_F32) return load_floats(static_cast<const float*>(from) + start, size);
    uint2 halves[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      halves[i] = make_uint2(0, 0);
      if (first(i) < size) halves[i] = load_8(static_cast<const u16*>(from) + start + first(i));
    }
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) v[i] = four_of_type(halves[i], type);
  }

  DEVICE void load_floats(const float* from, int size) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      v[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (first(i) < size) v[i] = load_four(from, first(i), ELEMENT_F32);
    }
  }

  // 1 / sqrt(mean square + epsilon) of the whole row, in every thread. `sums` is nobody else's.
  DEVICE float scale(float* sums, int size, float epsilon) const {
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) sum += sum_of_squares(v[i]);
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(EVERY_LANE, sum, offset);
    if (lane == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = lane < warps ? sums[lane] : 0.f;
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(EVERY_LANE, sum, offset);
    return 1.f / sqrtf(sum / float(size) + epsilon);
  }

  DEVICE void multiply(const RowPart& weight, float scale) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float4 w = weight.v[i];
      v[i] = make_float4(v[i].x * scale * w.x, v[i].y * scale * w.y, v[i].z * scale * w.z, v[i].w * scale * w.w);
    }
  }

  DEVICE void store(void* to, size_t start, int type, int size) const {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
      if (first(i) < size) store_four(to, start + first(i), v[i], type);
  }

  // Adds to what this thread alone reads and writes.
  DEVICE void add_to(float* row, int size) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      if (first(i) >= size) continue;
      float4* const place = reinterpret_cast<float4*>(row + first(i));
      const float4 old = *place;
      *place = v[i] = make_float4(old.x + v[i].x, old.y + v[i].y, old.z + v[i].z, old.w + v[i].w);
    }
  }
};

// The row that is to be normalised. Where there is an addend, from.rows is a residual stream in single
// precision, which grows first: by the normalised addend, or by the addend itself where that has no
// weight.
template <int VECTORS>
DEVICE void load_row(RowPart<VECTORS>& row, const RmsNormRows& from, const RmsNormRows& addend, int size, float epsilon) {
  SHARED_ARRAY(float, sums, RMS_NORM_WARPS);
  const size_t start = size_t(blockIdx.x) * from.stride;
  if (!addend.rows) return row.load(from.rows, start, from.type, size);
  row.load(addend.rows, size_t(blockIdx.x) * addend.stride, addend.type, size);
  if (addend.weight) {
    RowPart<VECTORS> weight;
    weight.load_floats(addend.weight, size);
    row.multiply(weight, row.scale(sums, size, epsilon));
  }
  row.add_to(static_cast<float*>(const_cast<void*>(from.rows)) + start, size);
}

template <int VECTORS>
DEVICE void rms_norm(const RmsNormRows& from, const RmsNormRows& addend, void* dense, u8* tiles, int dense_type,
                     int size, float epsilon) {
  SHARED_ARRAY(float, sums, RMS_NORM_WARPS);
  const int place = threadIdx.x * 32;  // weights depend on nobody: a line a thread comes in advance
  if (from.weight && place < size) prefetch_to_l2(from.weight + place);
  if (addend.weight && place < size) prefetch_to_l2(addend.weight + place);
  wait_for_previous_kernel();
  RowPart<VECTORS> row, weight;
  load_row(row, from, addend, size, epsilon);
  if (from.weight) weight.load_floats(from.weight, size);
  let_next_kernel_begin();
  if (!from.weight) return;
  row.multiply(weight, row.scale(sums, size, epsilon));
  if (dense) row.store(dense, size_t(blockIdx.x) * size, dense_type, size);
  if (!tiles) return;
#pragma unroll
  for (int i = 0; i < VECTORS; ++i)
    store_q8(tiles, gridDim.x, blockIdx.x, row.first(i), row.v[i], row.first(i) < size);
}

// Rows of `size`, a multiple of four (of 32 where there are tiles) and at most 4 * VECTORS
// times the threads; whatever is null is left out.
// Grid: rows.
#define RMS_NORM(THREADS, VECTORS)                                                                \
  extern "C" __global__ void __launch_bounds__(THREADS) rms_norm_v##VECTORS(                      \
      const void* rows, const float* __restrict__ weight, const void* __restrict__ addend,        \
      const float* __restrict__ addend_weight, void* __restrict__ dense, u8* __restrict__ tiles,  \
      int stride, int type, int addend_stride, int addend_type, int dense_type, int size, float epsilon) { \
    rms_norm<VECTORS>({rows, stride, type, weight}, {addend, addend_stride, addend_type, addend_weight}, \
                      dense, tiles, dense_type, size, epsilon);                                   \
  }                                                                                               \
  EXPORT_KERNEL(rms_norm_v##VECTORS)
#define RMS_NORM_VARIANTS RMS_NORM(512, 1) RMS_NORM(512, 2) RMS_NORM(1024, 4)
RMS_NORM_VARIANTS
