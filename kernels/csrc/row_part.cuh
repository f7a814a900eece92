// A row in the registers of a block: VECTORS times four neighbours a thread, a distance of four times the
// threads apart. Sums of squares go through the lanes of a warp, then once through shared memory.
#pragma once
#include "elements.cuh"
#include "store_q8.cuh"

#define ROW_WARPS 32

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

  // 1 / sqrt(mean square + epsilon) of the whole row, in every thread. `sums` is shared memory for it alone.
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

  // As bytes with scales: inputs `start` and those that follow of a column of tiles.
  DEVICE void store_tiles(u8* tiles, int columns, int column, int start, int size) const {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) store_q8(tiles, columns, column, start + first(i), v[i], first(i) < size);
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
