// Products of a token with the matrices of the experts that were picked for it: decode of a mixture of
// experts. gemv.cuh for one column, with the matrix chosen by a number in memory.
//
// The matrices of all experts lie one after the other. A block's place along y is a pick: its expert,
// and the token whose bytes it multiplies, each `used` picks another one. Tiles of a token follow one
// another, as q8_tile.cuh has them for a single column.
//
// A file experts_<type>.cuh includes the type's own one, without its kernels, and this; then it says
// EXPERT_KERNEL(...) for each of EXPERT_VARIANTS.
#pragma once
#include "gemv.cuh"

struct ExpertArguments {
  const u8 *weights, *tiles;
  const long long* picked;  // (picks,) numbers of experts
  const float* bias;        // (experts, rows), or null
  float* y;                 // (picks, rows)
  int rows, inputs, row_bytes, used;
};

template <class Format, int ROWS, int SPLIT>
DEVICE void expert_gemv(const Format& format, const ExpertArguments& a) {
  wait_for_previous_kernel();  // which may have picked
  const int pick = blockIdx.y;
  const size_t first = size_t(a.picked[pick]) * a.rows;
  const size_t token_bytes = size_t((a.inputs + Q8_TILE_INPUTS - 1) / Q8_TILE_INPUTS) * Q8_TILE_BYTES;
  const GemvArguments one = {
      a.weights + first * a.row_bytes, a.tiles + pick / a.used * token_bytes, a.rows, a.inputs, a.row_bytes,
      {a.y + size_t(pick) * a.rows, a.bias ? a.bias + first : nullptr, 1.f, a.rows, ELEMENT_F32}};
  gemv<Format, ROWS, 1, SPLIT>(format, one);
}

#define EXPERT_PARAMETERS                                                                         \
  const u8 *__restrict__ weights, const u8 *__restrict__ tiles, const long long *__restrict__ picked, \
      const float *__restrict__ bias, float *__restrict__ y, int rows, int inputs, int row_bytes, int used
#define EXPERT_ARGUMENTS {weights, tiles, picked, bias, y, rows, inputs, row_bytes, used}

// `value` is what makes a Format from `inputs`.
#define EXPERT_KERNEL(NAME, SPLIT, Format, value)                                                 \
  extern "C" __global__ void __launch_bounds__(GEMV_THREADS) NAME##_experts_s##SPLIT(EXPERT_PARAMETERS) { \
    expert_gemv<Format, 2, SPLIT>(value, EXPERT_ARGUMENTS);                                       \
  }                                                                                               \
  EXPORT_KERNEL(NAME##_experts_s##SPLIT)

// EXPERTS(SPLIT)
#define EXPERT_VARIANTS EXPERTS(1) EXPERTS(4)
