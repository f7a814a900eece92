// Products of quantised weights with one to eight columns of bytes: decode, and the verification of
// drafts.
//
// A warp takes ROWS rows; a lane takes one group of 32 weights of each, reads and decodes it once, and
// multiplies it by all COLUMNS. SPLIT warps share the rows tile by tile, for matrices whose rows
// alone are too few to occupy a GPU. How weights of a type lie in memory and what they mean is up to
// a Format, of which there is one in each thread:
//   Cursor                                           what names this lane's part of a tile; copied
//   Cursor at(const u8* row, int number, int tile)   where this lane's part of a tile of 1024 weights
//                                                    begins, in the row of this number
//   void advance(Cursor&, int tiles)                 the same, so many tiles on
//   Raw load(const Cursor&, int groups)              its bytes, in a tile of so many groups of 32
//                                                    (fewer than 32 in a row's last tile only)
//   Group decode(const Raw&)                         what is the same for all columns
//   float product(const Group&, const Q8Group&, float sum)
//                                                    sum + the products of 32 weights with 32 bytes
// A row's bytes are a multiple of 16, so that rows begin where 16 bytes can be loaded.
#pragma once
#include "epilogue.cuh"
#include "q8_tile.cuh"
#include "reduce.cuh"

#define GEMV_THREADS 128
#define GEMV_WARPS (GEMV_THREADS / 32)

struct GemvArguments {
  const u8 *weights, *tiles;
  int rows, inputs, row_bytes;
  Epilogue epilogue;
  int first_block = 0;  // that works on these rows
};

template <int SPLIT, int COUNT>
DEVICE void sum_over_warps(float& value, int warp, int lane) {
  SHARED_ARRAY(float, partial, GEMV_WARPS * 32);
  if (lane % (32 / COUNT) == 0) partial[warp * 32 + lane] = value;
  __syncthreads();
  if (warp % SPLIT || lane % (32 / COUNT)) return;
#pragma unroll
  for (int i = 1; i < SPLIT; ++i) value += partial[(warp + i) * 32 + lane];
}

template <class Format, int ROWS, int COLUMNS, class Matrix>
DEVICE void add_tile(const Matrix& matrix, const typename Format::Cursor (&cursors)[ROWS], const u8* x, int groups,
                     float* sums) {
  typename Format::Raw raw[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) raw[r] = matrix.format(r).load(cursors[r], groups);
  typename Format::Group group[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) group[r] = matrix.format(r).decode(raw[r]);
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
    const Q8Group q8 = load_q8_group(x + c * Q8_TILE_BYTES);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) sums[r * COLUMNS + c] = matrix.format(r).product(group[r], q8, sums[r * COLUMNS + c]);
  }
}

// Which row a thread begins with, where a warp takes ROWS of them: the same whenever it asks.
template <int ROWS, int SPLIT>
struct GemvPlace {
  int lane, warp, row;
  DEVICE explicit GemvPlace(int first_block) : lane(thread_index() % 32), warp(thread_index() / 32) {
    row = ((block_index() - first_block) * (GEMV_WARPS / SPLIT) + warp / SPLIT) * ROWS;
  }
};

// ROWS of a matrix that follow one another; those beyond its end are its last one.
template <class Format, int ROWS>
struct OneMatrix {
  static constexpr int STEP = ROWS;  // from one warp to the next
  const Format& each;
  const u8* weights;
  int rows, first_block;
  DEVICE int number(int first, int r) const { return min(first + r, rows - 1); }
  DEVICE const u8* start(int) const { return weights; }
  DEVICE const Format& format(int) const { return each; }
};

// Adds the products of this warp's ROWS rows to `sums`.
template <class Format, int ROWS, int COLUMNS, int SPLIT, class Matrix>
DEVICE void add_tiles(const Matrix& matrix, const u8* tiles, int inputs, int row_bytes, float* sums) {
  const GemvPlace<Matrix::STEP, SPLIT> place(matrix.first_block);
  const int lane = place.lane, split = place.warp % SPLIT;
  const int full = inputs / Q8_TILE_INPUTS, rest = inputs % Q8_TILE_INPUTS / 32;
  typename Format::Cursor cursors[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = matrix.number(place.row, r);
    const u8* const start = matrix.start(r) + size_t(row) * row_bytes;
    cursors[r] = matrix.format(r).at(start, row, split);
    // Weights depend on nobody: their first bytes may come while the previous kernel still runs.
    if (lane * 32 < row_bytes) prefetch_to_l2(start + lane * 32);
  }
  wait_for_previous_kernel();
  const u8* x = tiles + split * (COLUMNS * Q8_TILE_BYTES) + lane * 16;
#pragma unroll(COLUMNS > 3 ? 1 : 2)
  for (int tile = split; tile < full; tile += SPLIT) {
    add_tile<Format, ROWS, COLUMNS>(matrix, cursors, x, 32, sums);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) matrix.format(r).advance(cursors[r], SPLIT);
    x += SPLIT * COLUMNS * Q8_TILE_BYTES;
  }
  if (full % SPLIT == split && lane < rest) add_tile<Format, ROWS, COLUMNS>(matrix, cursors, x, rest, sums);
}

template <class Format, int ROWS, int COLUMNS, int SPLIT>
DEVICE void gemv(const Format& format, const GemvArguments& a) {
  constexpr int COUNT = power_of_two_from(ROWS * COLUMNS);
  if (SPLIT == 1 && GemvPlace<ROWS, SPLIT>(a.first_block).row >= a.rows) return;
  float sums[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sums[i] = 0.f;
  const OneMatrix<Format, ROWS> matrix{format, a.weights, a.rows, a.first_block};
  add_tiles<Format, ROWS, COLUMNS, SPLIT>(matrix, a.tiles, a.inputs, a.row_bytes, sums);
  let_next_kernel_begin();
  sum_over_lanes(sums);
  const GemvPlace<ROWS, SPLIT> place(a.first_block);
  if constexpr (SPLIT > 1) sum_over_warps<SPLIT, COUNT>(sums[0], place.warp, place.lane);
  const int value = place.lane / (32 / COUNT), row = place.row + value / COLUMNS;
  if (place.warp % SPLIT || place.lane % (32 / COUNT) || value >= ROWS * COLUMNS || row >= a.rows) return;
  store_product(a.epilogue, value % COLUMNS, row, sums[0]);
}

#define GEMV_PARAMETERS                                                                           \
  const u8 *__restrict__ weights, const u8 *__restrict__ tiles, int rows, int inputs, int row_bytes, \
      EPILOGUE_PARAMETERS
#define GEMV_ARGUMENTS {weights, tiles, rows, inputs, row_bytes, EPILOGUE}

// How many blocks a processor shall have room for, as a kernel's second launch bound: the last digit of
// eight is for one column, the first for eight. 0 leaves it to the compiler, which then may spill a
// register, or spare registers for the price of more instructions.
#define GEMV_BLOCKS(DIGITS, COLUMNS) (0x##DIGITS >> 4 * (COLUMNS - 1) & 15)

// What is compiled of each type: VARIANT(ROWS, COLUMNS, SPLIT). Two rows a warp take the fewest
// instructions for a weight without taking so many registers that warps are missing.
#ifndef GEMV_VARIANTS
#define GEMV_VARIANTS                                                                             \
  VARIANT(2, 1, 1) VARIANT(2, 1, 4) VARIANT(2, 2, 1) VARIANT(2, 2, 4) VARIANT(2, 3, 1)            \
  VARIANT(2, 3, 4) VARIANT(2, 4, 1) VARIANT(2, 4, 4) VARIANT(2, 5, 1) VARIANT(2, 5, 4)            \
  VARIANT(2, 6, 1) VARIANT(2, 6, 4) VARIANT(2, 7, 1) VARIANT(2, 7, 4) VARIANT(2, 8, 1)            \
  VARIANT(2, 8, 4)
#endif
