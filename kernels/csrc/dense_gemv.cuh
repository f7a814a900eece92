// Products of 16-bit weights with one to sixteen columns of 16-bit numbers of the same type, summed in
// single precision: the LM head, and models that nobody quantised.
//
// Tensor cores do it, although most of what they multiply are zeros: they need no conversion, and the
// same instructions for any number of columns. A warp takes ROWS rows, eight of them a tile; a lane
// reads 16 bytes of one of them, which are eight inputs, and the same inputs of a column (of two from
// nine columns on), so that fragments of mma.m16n8k16 are what was loaded: which inputs a place of
// the fragment stands for does not matter, as long as it is the same for weights and columns.
//
//   lane l: row l / 4 of a tile, column l / 4 (and l / 4 + 8), inputs 8 (l mod 4) to 8 (l mod 4) + 7 of 32
//
// SPLIT warps share the rows, a chunk of inputs each in turn. While a warp multiplies one chunk, its next
// one is on the way to other registers: left alone, the compiler waits for each load where it is used.
#pragma once
#include "epilogue.cuh"

struct DenseArguments {
  const u16* weights;  // (rows, inputs)
  const u16* x;        // (columns, inputs)
  int rows, inputs, columns;
};

constexpr DEVICE int dense_warps(int split) { return split < 4 ? 4 : split; }

template <int ROWS, int SPLIT>
struct DensePlace {
  int lane, split, row;
  DEVICE DensePlace() : lane(thread_index() % 32), split(thread_index() / 32 % SPLIT) {
    row = (block_index() * (dense_warps(SPLIT) / SPLIT) + thread_index() / 32 / SPLIT) * ROWS;
  }
};

template <int TYPE>
DEVICE void dense_mma(float (&sums)[4], const u32 (&columns)[4], u32 low, u32 high) {
  const u32 weights[2] = {low, high};
  if constexpr (TYPE == ELEMENT_F16) mma_f16(sums, columns, weights);
  else mma_bf16(sums, columns, weights);
}

// What a warp reads of 32 inputs at a time, and adds to the sums of each tile: of row 2 (lane mod 4) and
// the next one, in column lane / 4 and then in column lane / 4 + 8.
template <int TYPE, int TILES, int COLUMNS>
struct DenseWarp {
  static constexpr int STEPS = 4 / TILES, CHUNK = 32 * STEPS;
  struct Chunk {
    uint4 w[STEPS][TILES], x[STEPS][COLUMNS / 8];
  };
  const u16 *rows[TILES], *columns[COLUMNS / 8];
  float sums[TILES][4];

  DEVICE void load_weights(Chunk& chunk) const {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < TILES; ++i) chunk.w[step][i] = load_streaming_16(rows[i] + step * 32);
    }
  }
  DEVICE void prefetch_weights() const {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < TILES; ++i) prefetch_to_l2(rows[i] + step * 32);
    }
  }
  DEVICE void load_columns(Chunk& chunk) const {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
      for (int i = 0; i < COLUMNS / 8; ++i) chunk.x[step][i] = load_16(columns[i] + step * 32);
    }
  }

  DEVICE void advance(int inputs) {
#pragma unroll
    for (int i = 0; i < TILES; ++i) rows[i] += inputs;
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; ++i) columns[i] += inputs;
  }

  DEVICE void add(const uint4 (&w)[TILES], const uint4 (&x)[COLUMNS / 8]) {
    const uint4 none = make_uint4(0, 0, 0, 0), upper = COLUMNS > 8 ? x[COLUMNS / 8 - 1] : none;
    const u32 first[4] = {x[0].x, upper.x, x[0].y, upper.y}, last[4] = {x[0].z, upper.z, x[0].w, upper.w};
#pragma unroll
    for (int i = 0; i < TILES; ++i) {
      dense_mma<TYPE>(sums[i], first, w[i].x, w[i].y);
      dense_mma<TYPE>(sums[i], last, w[i].z, w[i].w);
    }
  }
  DEVICE void add(const Chunk& chunk) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) add(chunk.w[step], chunk.x[step]);
  }

  // 32 inputs or fewer, a multiple of eight, `left` of them from this lane's first one on.
  DEVICE void add_rest(int left) {
    const uint4 none = make_uint4(0, 0, 0, 0);
    uint4 w[TILES], x[COLUMNS / 8];
#pragma unroll
    for (int i = 0; i < TILES; ++i) w[i] = left > 0 ? load_streaming_16(rows[i]) : none;
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; ++i) x[i] = left > 0 ? load_16(columns[i]) : none;
    add(w, x);
  }
};

template <int VALUES, int SPLIT>
DEVICE void sum_dense_warps(float* values, int lane, int split) {
  SHARED_ARRAY(float, partial, dense_warps(SPLIT) * VALUES * 32);
  float* const own = partial + thread_index() / 32 * (VALUES * 32) + lane;
#pragma unroll
  for (int i = 0; i < VALUES; ++i) own[i * 32] = values[i];
  __syncthreads();
  if (split) return;
#pragma unroll
  for (int warp = 1; warp < SPLIT; ++warp) {
#pragma unroll
    for (int i = 0; i < VALUES; ++i) values[i] += own[(warp * VALUES + i) * 32];
  }
}

// All inputs of this warp; weights depend on nobody, so that the first ones may come while the previous
// kernel still runs.
template <int SPLIT, class Warp>
DEVICE void add_inputs(Warp& warp, int inputs, int lane, int split) {
  constexpr int STRIDE = SPLIT * Warp::CHUNK;
  const int full = inputs / Warp::CHUNK, rest = inputs % Warp::CHUNK;
  typename Warp::Chunk chunk;
  // To the cache, because the compiler puts read-only loads to registers behind the wait.
  if (split < full) warp.prefetch_weights();
  wait_for_previous_kernel();
  if (split < full) {
    warp.load_weights(chunk);
    warp.load_columns(chunk);
    warp.advance(STRIDE);
#pragma unroll 1
    for (int next = split + SPLIT; next < full; next += SPLIT) {
      typename Warp::Chunk coming;
      warp.load_weights(coming);
      warp.load_columns(coming);
      warp.advance(STRIDE);
      warp.add(chunk);
      chunk = coming;
    }
    warp.add(chunk);
  }
  if (full % SPLIT != split) return;
#pragma unroll 1
  for (int left = rest; left > 0; left -= 32) {
    warp.add_rest(left - lane % 4 * 8);
    warp.advance(32);
  }
}

// All sums of a warp's rows, which the first of those that share them ends with. `matrix(tile)` gives
// the matrix that a tile is of, `number(tile)` its first row there.
template <int TYPE, int TILES, int COLUMNS, int SPLIT, class Matrix>
DEVICE void dense_sums(const Matrix& matrix, const DenseArguments& a, int lane, int split,
                       float (&values)[TILES * COLUMNS / 4]) {
  DenseWarp<TYPE, TILES, COLUMNS> warp;
  const int first = split * warp.CHUNK + lane % 4 * 8;
#pragma unroll
  for (int i = 0; i < TILES; ++i) {
    const int row = min(matrix.number(i) + lane / 4, a.rows - 1);
    warp.rows[i] = matrix.matrix(i) + (size_t(row) * a.inputs + first);
#pragma unroll
    for (int k = 0; k < 4; ++k) warp.sums[i][k] = 0.f;
  }
#pragma unroll
  for (int i = 0; i < COLUMNS / 8; ++i)
    warp.columns[i] = a.x + (size_t(min(lane / 4 + i * 8, a.columns - 1)) * a.inputs + first);
  add_inputs<SPLIT>(warp, a.inputs, lane, split);
  let_next_kernel_begin();
#pragma unroll
  for (int i = 0; i < TILES; ++i) {
#pragma unroll
    for (int k = 0; k < COLUMNS / 4; ++k) values[i * (COLUMNS / 4) + k] = warp.sums[i][k];
  }
  if constexpr (SPLIT > 1) sum_dense_warps<TILES * COLUMNS / 4, SPLIT>(values, lane, split);
}

// Tiles of a matrix that follow one another.
struct DenseMatrix {
  const u16* weights;
  int row;
  DEVICE const u16* matrix(int) const { return weights; }
  DEVICE int number(int tile) const { return row + tile * 8; }
};

template <int TYPE, int ROWS, int COLUMNS, int SPLIT>
DEVICE void dense_gemv(const DenseArguments& a, const Epilogue& epilogue) {
  const DensePlace<ROWS, SPLIT> begin;
  if (SPLIT <= 1 && begin.row >= a.rows) return;
  float values[ROWS / 8 * COLUMNS / 4];
  dense_sums<TYPE, ROWS / 8, COLUMNS, SPLIT>(DenseMatrix{a.weights, begin.row}, a, begin.lane, begin.split, values);
  const DensePlace<ROWS, SPLIT> place;
  if (place.split) return;
#pragma unroll
  for (int i = 0; i < ROWS / 8 * COLUMNS / 4; ++i) {
    const int tile = i / (COLUMNS / 4), column = place.lane / 4 + i % (COLUMNS / 4) / 2 * 8;
    const int row = place.row + tile * 8 + place.lane % 4 * 2 + i % 2;
    if (row < a.rows && column < a.columns) store_product(epilogue, column, row, values[i]);
  }
}

#define DENSE_KERNEL(NAME, TYPE, ROWS, COLUMNS, SPLIT)                                            \
  extern "C" __global__ void __launch_bounds__(32 * dense_warps(SPLIT))                           \
      dense_gemv_##NAME##_r##ROWS##_c##COLUMNS##_s##SPLIT(                                        \
          const u16* __restrict__ weights, const u16* __restrict__ x, int rows, int inputs, int columns, \
          EPILOGUE_PARAMETERS) {                                                                  \
    dense_gemv<TYPE, ROWS, COLUMNS, SPLIT>({weights, x, rows, inputs, columns}, EPILOGUE);        \
  }                                                                                               \
  EXPORT_KERNEL(dense_gemv_##NAME##_r##ROWS##_c##COLUMNS##_s##SPLIT)

// DENSE(ROWS, COLUMNS, SPLIT) for each type.
#ifndef DENSE_VARIANTS
#define DENSE_VARIANTS                                                                            \
  DENSE(16, 8, 1) DENSE(16, 8, 4) DENSE(8, 8, 4) DENSE(8, 8, 8)                                   \
  DENSE(16, 16, 1) DENSE(16, 16, 4) DENSE(8, 16, 4) DENSE(8, 16, 8)
#endif
#define DENSE(ROWS, COLUMNS, SPLIT)                                                               \
  DENSE_KERNEL(f16, ELEMENT_F16, ROWS, COLUMNS, SPLIT)                                            \
  DENSE_KERNEL(bf16, ELEMENT_BF16, ROWS, COLUMNS, SPLIT)
DENSE_VARIANTS
