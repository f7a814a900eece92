// Rows brought to length: of the residual stream before a projection, of a projection before it is
// added to the residual stream, or both one after the other.
//
// A block takes a row, reads it once and keeps it in registers.
#pragma once
#include "row_part.cuh"

struct RmsNormRows {
  const void* rows;
  int stride, type;     // from row to row, in elements of the type
  const float* weight;  // (size,), or null
};

// The row that is to be normalised. Where there is an addend, from.rows is a residual stream in single
// precision, which grows first: by the normalised addend, or by the addend itself where that has no
// weight.
template <int VECTORS>
DEVICE void load_row(RowPart<VECTORS>& row, const RmsNormRows& from, const RmsNormRows& addend, int size, float epsilon) {
  SHARED_ARRAY(float, sums, ROW_WARPS);
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
  SHARED_ARRAY(float, sums, ROW_WARPS);
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
  if (tiles) row.store_tiles(tiles, gridDim.x, blockIdx.x, 0, size);
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
