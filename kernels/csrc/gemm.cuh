// Products of quantised weights with any number of columns of bytes, on tensor cores
// (mma.m16n8k32): batches and prompts. Weights are those that gemv.cuh reads.
//
// A block has 128 rows and COLUMNS columns; a warp has 32 rows, in two tiles of 16, and COLUMN_TILES
// tiles of 8 columns. Inputs go by in slabs of 128, four groups, which are copied to shared memory
// STAGES - 1 slabs ahead. Shared memory is what turns 16 bytes of a row into a word for each of four
// lanes, as a matrix product wants them.
//
// A product of bytes begins at the bits of the float 1.5 * 2^23 and is one when it ends, so that two
// multiply-adds bring it to its sum: one with the scale of activations, which takes the 1.5 * 2^23
// away (exactly: see q8_scale), one with the weights'. A third one is for minima.
//
// The slabs of all tiles of the output are dealt out evenly, in order, so that few tiles occupy a GPU as
// well as many: a block may have the end of one tile and the beginning of another. What belongs to
// one tile meets in `partials`: who arrives last sums them, always in the same order.
//
// A Format says how weights lie in memory and what they mean:
//   SIGNED   whether its bytes are; MINIMA whether scales come with minima; HALVES whether they are for
//            16 weights rather than 32
//   ROW_BYTES                                        of a row's slab in shared memory: an odd multiple of 16
//   void copy(const GemmRows&, const GemmSlab&, u8* shared)   starts the copies of a warp's share of rows
//   void load(u32 (&a)[2][4], const u8* rows, int pair)   16 rows' fragments of groups 2 pair and 2 pair + 1
//   float2 scale(const u8* row, const GemmSlab&, int group, int number)
//                                                    of row `number`: scale and minus the minimum, or two scales
//
// With EXPERTS the matrices of several experts lie one after the other, and each block of columns has
// one of them: see expert_gemm.cuh.
#pragma once
#include "epilogue.cuh"
#include "q8_tile.cuh"

#define GEMM_ROWS 128
#define GEMM_GROUPS 4
// A row's scales, and the bytes to the next row's, which lie in other banks.
#define GEMM_SCALE_BYTES 48
// 1.5 * 2^23: integers near zero that are added to its bits are added to its value.
#define GEMM_BASE 12582912.f
#define GEMM_BASE_BITS 0x4b400000

struct GemmArguments {
  const u8 *weights, *tiles;
  float* partials;  // of this shape's (blocks, 2, rows, columns), in whatever order they have in registers
  u32* arrivals;    // (blocks,), zeros before and after
  int rows, inputs, row_bytes, columns;
  Epilogue epilogue;
  const int* experts = nullptr;  // how many blocks of columns there are, and the expert of each
};

template <int COLUMN_TILES_, int COLUMN_WARPS_, int STAGES_>
struct GemmShape {
  static constexpr int COLUMN_TILES = COLUMN_TILES_, COLUMN_WARPS = COLUMN_WARPS_, STAGES = STAGES_;
  static constexpr int WARPS = 4 * COLUMN_WARPS, THREADS = 32 * WARPS, COLUMNS = 8 * COLUMN_TILES * COLUMN_WARPS;
  // Activations of a slab: its groups, each in halves of 16 bytes a column. Halves and groups begin in
  // banks of their own, because neighbours in memory are of one column.
  static constexpr int HALF_BYTES = 16 * COLUMNS + 64, GROUP_BYTES = 2 * HALF_BYTES + 16;
  static constexpr int FACT_BYTES = 8 * COLUMNS + 32;  // a scale and a sum for each column of a group
  static constexpr int VALUES = GEMM_GROUPS * GROUP_BYTES, ACTIVATIONS = VALUES + GEMM_GROUPS * FACT_BYTES;
};

// A slab: inputs from `group` of `tile` on, of whose `groups` there are `valid` ones in it.
struct GemmSlab {
  int tile, group, groups, valid;
};

// The ROWS rows of a slab that a warp copies.
template <int ROWS_>
struct GemmRows {
  static constexpr int ROWS = ROWS_;
  const u8* first;  // byte of the first row
  int row_bytes, left, lane;  // left: rows there are from the first on, maybe none

  // COPIES pieces of BYTES, of which the first `pieces` are there, from `offset` in each row, to where the first
  // row's `shared` ones are. Others become zeros, and rows that are not there.
  template <int BYTES, int COPIES, int ROW_BYTES>
  DEVICE void copy(u8* shared, int offset, int pieces = COPIES) const {
    constexpr int AT_ONCE = 32 / COPIES;
    const int piece = lane % COPIES, place = lane / COPIES;
    const u8* const from = first + (size_t(place) * row_bytes + (offset + piece * BYTES));
    u8* const to = shared + place * ROW_BYTES + piece * BYTES;
    if (AT_ONCE > ROWS && place >= ROWS) return;
#pragma unroll
    for (int row = 0; row < ROWS; row += AT_ONCE) {
      const u32 bytes = place + row < left && piece < pieces ? BYTES : 0;
      if constexpr (BYTES == 16) copy_async_16(to + row * ROW_BYTES, from + size_t(row) * row_bytes, bytes);
      else copy_async<BYTES>(to + row * ROW_BYTES, from + size_t(row) * row_bytes, bytes);
    }
  }
};

// Of 16 rows of 16 bytes a group: words of rows `lane / 4` and 8 below it, of one group and the next.
template <int ROW_BYTES>
DEVICE void load_words(u32 (&words)[4], const u8* rows, int pair) {
  const int lane = threadIdx.x % 32;
  load_matrix_x4(words, rows + lane % 16 * ROW_BYTES + (2 * pair + lane / 16) * 16);
}

template <class Format, class Shape, bool EXPERTS>
struct Gemm {
  static constexpr int TILES = Shape::COLUMN_TILES, STAGES = Shape::STAGES, COLUMNS = Shape::COLUMNS;
  static constexpr int WEIGHT_BYTES = GEMM_ROWS * Format::ROW_BYTES, STAGE_BYTES = WEIGHT_BYTES + Shape::ACTIVATIONS;
  static constexpr int COPIED_ROWS = GEMM_ROWS / Shape::WARPS, RESULT_STRIDE = GEMM_ROWS + 4;
  static constexpr int SCALES = Shape::WARPS * 32 * GEMM_SCALE_BYTES;

  const Format& format;
  const GemmArguments& a;
  u8* const shared;
  const int lane, warp, groups, slabs, column_blocks;
  float sums[2][TILES][4];

  DEVICE Gemm(const Format& format, const GemmArguments& a, u8* shared)
      : format(format), a(a), shared(shared), lane(threadIdx.x % 32), warp(threadIdx.x / 32), groups(a.inputs / 32),
        slabs((groups + GEMM_GROUPS - 1) / GEMM_GROUPS), column_blocks(count_column_blocks(a)) {}

  DEVICE static int count_column_blocks(const GemmArguments& a) {
    if constexpr (!EXPERTS) return (a.columns + COLUMNS - 1) / COLUMNS;
    wait_for_previous_kernel();  // which may have dealt out the blocks
    return a.experts[0];
  }

  DEVICE int row_of(int tile) const { return tile / column_blocks * GEMM_ROWS; }
  DEVICE int column_of(int tile) const { return tile % column_blocks * COLUMNS; }
  // The row of all matrices with which the tile's own one begins.
  DEVICE int matrix_of(int tile) const {
    if constexpr (EXPERTS) return a.experts[1 + tile % column_blocks] * a.rows;
    return 0;
  }

  DEVICE GemmSlab slab_of(int slab) const {
    GemmSlab at;
    at.tile = slab / 8;
    at.group = slab % 8 * GEMM_GROUPS;
    at.groups = min(32, groups - at.tile * 32);
    at.valid = min(GEMM_GROUPS, at.groups - at.group);
    return at;
  }

  // `first` is the block's first row, in the matrix that begins with row `matrix` of all.
  DEVICE void copy_weights(const GemmSlab& at, int stage, int first, int matrix) const {
    const int row = first + warp * COPIED_ROWS;
    // Asked anew where registers are few, so that nothing that follows from it is kept over the loop.
    const int own_lane = COLUMNS == 64 ? thread_index() % 32 : lane;
    const GemmRows<COPIED_ROWS> rows = {a.weights + size_t(matrix + row) * a.row_bytes, a.row_bytes, a.rows - row, own_lane};
    format.copy(rows, at, shared + stage * STAGE_BYTES + warp * COPIED_ROWS * Format::ROW_BYTES);
  }

  // Columns and groups that are not there become zeros.
  DEVICE void copy_activations(const GemmSlab& at, int stage, int column) const {
    u8* const to = shared + stage * STAGE_BYTES + WEIGHT_BYTES;
    const u8* const from = a.tiles + size_t(at.tile) * a.columns * Q8_TILE_BYTES + size_t(column) * Q8_TILE_BYTES + at.group * 16;
    const int group = threadIdx.x % 4, left = group < at.valid ? a.columns - column : 0;
    const int half = threadIdx.x / 4 % 2, c = threadIdx.x / 8, d = threadIdx.x / 4;
    if (Shape::THREADS / 8 <= COLUMNS || c < COLUMNS) {
      u8* const own = to + group * Shape::GROUP_BYTES + half * Shape::HALF_BYTES + c * 16;
      const u8* const its = from + c * Q8_TILE_BYTES + half * 512 + group * 16;
#pragma unroll
      for (int first = 0; first < COLUMNS; first += Shape::THREADS / 8)
        copy_async_16(own + first * 16, its + first * Q8_TILE_BYTES, first + c < left ? 16 : 0);
    }
    if (Shape::THREADS / 4 <= COLUMNS || d < COLUMNS) {
      u8* const own = to + Shape::VALUES + group * Shape::FACT_BYTES + d * 8;
      const u8* const its = from + d * Q8_TILE_BYTES + 1024 + group * 16;
#pragma unroll
      for (int first = 0; first < COLUMNS; first += Shape::THREADS / 4)
        copy_async<8>(own + first * 8, its + first * Q8_TILE_BYTES, first + d < left ? 8 : 0);
    }
  }

  // Lane l decodes group l % 4 of every eighth row, for all lanes of its warp.
  DEVICE void decode_scales(const u8* rows, u8* scales, const GemmSlab& at, int row) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int place = lane / 4 + 8 * i;
      const float2 scale = format.scale(rows + place * Format::ROW_BYTES, at, lane % 4, min(row + place, a.rows - 1));
      *reinterpret_cast<float2*>(scales + place * GEMM_SCALE_BYTES + lane % 4 * 8) = scale;
    }
    __syncwarp();
  }

  // Adds the products of one group, 16 rows and 8 columns. `first` and `last` are scales of row lane / 4
  // and of the one 8 below it; facts are scale and sum of two columns; base is what GEMM_BASE adds.
  DEVICE static void add(float (&sum)[4], const u32 (&weights)[4], const u32 (&values)[2], float2 first, float2 last,
                         float4 facts, float2 base) {
    const int begin[4] = {GEMM_BASE_BITS, GEMM_BASE_BITS, GEMM_BASE_BITS, GEMM_BASE_BITS};
    int dots[4], others[4] = {0, 0, 0, 0};
    if constexpr (Format::HALVES) {
      mma_half_s8s8_onto(dots, begin, weights[0], weights[1], values[0]);
      mma_half_s8s8_onto(others, begin, weights[2], weights[3], values[1]);
    } else if constexpr (Format::SIGNED) {
      mma_s8s8_onto(dots, begin, weights, values);
    } else {
      mma_u8s8_onto(dots, begin, weights, values);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 scale = i < 2 ? first : last;
      const float d = i % 2 ? facts.z : facts.x, zero = i % 2 ? base.y : base.x;
      sum[i] = fmaf(scale.x, fmaf(bits_to_float(dots[i]), d, zero), sum[i]);
      if constexpr (Format::HALVES) sum[i] = fmaf(scale.y, fmaf(bits_to_float(others[i]), d, zero), sum[i]);
      if constexpr (Format::MINIMA) sum[i] = fmaf(scale.y, i % 2 ? facts.w : facts.y, sum[i]);
    }
  }

  DEVICE void multiply(const GemmSlab& at, int stage, int row) {
    const u8* const rows = shared + stage * STAGE_BYTES + warp / Shape::COLUMN_WARPS * (32 * Format::ROW_BYTES);
    u8* const scales = shared + STAGES * STAGE_BYTES + warp * 32 * GEMM_SCALE_BYTES;
    decode_scales(rows, scales, at, row + warp / Shape::COLUMN_WARPS * 32);
    const int column = warp % Shape::COLUMN_WARPS * (8 * TILES);
    const u8* const values = shared + stage * STAGE_BYTES + WEIGHT_BYTES + column * 16 + lane % 8 * 16 +
                             lane / 16 * Shape::GROUP_BYTES + lane / 8 % 2 * Shape::HALF_BYTES;
    const u8* const all_facts = shared + stage * STAGE_BYTES + WEIGHT_BYTES + Shape::VALUES + column * 8 + lane % 4 * 16;
#pragma unroll(TILES > 4 ? 1 : 2)
    for (int pair = 0; pair < GEMM_GROUPS / 2; ++pair) {
      u32 weights[2][2][4];
      float4 scale[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) format.load(weights[i], rows + i * 16 * Format::ROW_BYTES, pair);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scale[i] = *reinterpret_cast<const float4*>(scales + (lane / 4 + 8 * i) * GEMM_SCALE_BYTES + pair * 16);
#pragma unroll
      for (int c = 0; c < TILES; ++c) {
        u32 x[4];
        load_matrix_x4(x, values + 2 * pair * Shape::GROUP_BYTES + c * 128);
#pragma unroll
        for (int g = 0; g < 2; ++g) {
          const float4 facts = *reinterpret_cast<const float4*>(all_facts + (2 * pair + g) * Shape::FACT_BYTES + c * 64);
          const float2 base = make_float2(-GEMM_BASE * facts.x, -GEMM_BASE * facts.z);
          const u32 group[2] = {x[2 * g], x[2 * g + 1]};
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float4 one = scale[2 * i], two = scale[2 * i + 1];
            add(sums[i][c], weights[i][g], group, g ? make_float2(one.z, one.w) : make_float2(one.x, one.y),
                g ? make_float2(two.z, two.w) : make_float2(two.x, two.y), facts, base);
          }
        }
      }
    }
  }

  DEVICE void sum_slabs(int tile, int begin, int end) {
    const int row = row_of(tile), column = column_of(tile);
    const int matrix = matrix_of(tile);
#pragma unroll
    for (int i = 0; i < 2 * TILES * 4; ++i) sums[i / (TILES * 4)][i / 4 % TILES][i % 4] = 0.f;
    __syncthreads();  // shared memory is free from here on
    // Weights depend on nobody: the first of them may come while the previous kernel still runs.
    for (int i = 0; i < STAGES - 1 && begin + i < end; ++i) copy_weights(slab_of(begin + i), i, row, matrix);
    wait_for_previous_kernel();
    for (int i = 0; i < STAGES - 1; ++i) {
      if (begin + i < end) copy_activations(slab_of(begin + i), i, column);
      commit_copies();
    }
    for (int slab = begin; slab < end; ++slab) {
      const int stage = (slab - begin) % STAGES;
      wait_for_copies<STAGES - 2>();
      __syncthreads();  // this slab is there, and the one before it has been multiplied
      if (slab + STAGES - 1 < end) {
        const int next = (slab - begin + STAGES - 1) % STAGES;
        const GemmSlab at = slab_of(slab + STAGES - 1);
        copy_weights(at, next, row, matrix);
        copy_activations(at, next, column);
      }
      commit_copies();
      multiply(slab_of(slab), stage, row);
    }
    __syncthreads();
  }

  // Through shared memory, so that neighbours in memory are stored by neighbours.
  DEVICE void store(int tile) const {
    float* const results = reinterpret_cast<float*>(shared);
    float* const own = results + (warp % Shape::COLUMN_WARPS * 8 * TILES + lane % 4 * 2) * RESULT_STRIDE +
                       warp / Shape::COLUMN_WARPS * 32 + lane / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int c = 0; c < TILES; ++c)
#pragma unroll
        for (int v = 0; v < 4; ++v) own[(c * 8 + v % 2) * RESULT_STRIDE + i * 16 + v / 2 * 8] = sums[i][c][v];
    __syncthreads();
    const int place = threadIdx.x % GEMM_ROWS, row = row_of(tile) + place, first = column_of(tile);
    const int columns = min(COLUMNS, a.columns - first);
    if (row >= a.rows) return;
    Epilogue epilogue = a.epilogue;
    if (EXPERTS && epilogue.bias) epilogue.bias += matrix_of(tile);
#pragma unroll 1
    for (int c = threadIdx.x / GEMM_ROWS; c < columns; c += Shape::THREADS / GEMM_ROWS)
      store_product(epilogue, first + c, row, results[c * RESULT_STRIDE + place]);
  }

  DEVICE float* partial(int block, int part) const {
    return a.partials + size_t(block * 2 + part) * (GEMM_ROWS * COLUMNS) + threadIdx.x * 4;
  }

  // Leaves this block's part of a tile to who comes last; tells whether that is this block, and then
  // has all parts, from blocks `first` to `last`, the first of which began this tile's after another's.
  DEVICE bool is_complete(int part, int first, int last, bool after_another) {
#pragma unroll
    for (int i = 0; i < 2 * TILES; ++i)
      *reinterpret_cast<float4*>(partial(blockIdx.x, part) + i * Shape::THREADS * 4) =
          make_float4(sums[i / TILES][i % TILES][0], sums[i / TILES][i % TILES][1], sums[i / TILES][i % TILES][2],
                      sums[i / TILES][i % TILES][3]);
    SHARED_ARRAY(u32, arrived, 1);
    __syncthreads();
    if (threadIdx.x == 0) arrived[0] = count_in_memory(a.arrivals + first, last - first);
    __syncthreads();
    if (arrived[0] != u32(last - first)) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < 2 * TILES * 4; ++i) sums[i / (TILES * 4)][i / 4 % TILES][i % 4] = 0.f;
    for (int block = first; block <= last; ++block) {
      const float* const from = partial(block, block == first && after_another ? 1 : 0);
#pragma unroll
      for (int i = 0; i < 2 * TILES; ++i) {
        const uint4 v = load_written_16(from + i * Shape::THREADS * 4);
        float(&sum)[4] = sums[i / TILES][i % TILES];
        sum[0] += bits_to_float(v.x), sum[1] += bits_to_float(v.y);
        sum[2] += bits_to_float(v.z), sum[3] += bits_to_float(v.w);
      }
    }
    return true;
  }

  // The first slab of a block's share of all tiles' slabs; the first blocks have one more than others.
  DEVICE int share(int block, int all) const {
    const int blocks = gridDim.x;
    return all / blocks * block + min(block, all % blocks);
  }
  // Whose share a slab is in.
  DEVICE int owner(int slab, int all) const {
    const int blocks = gridDim.x, each = all / blocks, longer = all % blocks, split = longer * (each + 1);
    return slab < split ? slab / (each + 1) : longer + (slab - split) / each;
  }

  DEVICE void run() {
    // Where this block goes on, its end, its beginning, slabs of all: no register has to hold them over
    // the long loops.
    SHARED_ARRAY(int, work, 4);
    const int all = (a.rows + GEMM_ROWS - 1) / GEMM_ROWS * column_blocks * slabs;
    if (threadIdx.x < 4) work[threadIdx.x] = threadIdx.x < 3 ? share(blockIdx.x + threadIdx.x % 2, all) : all;
    __syncthreads();
#pragma unroll 1
    while (work[0] < work[1]) {
      const int place = work[0], first = place % slabs;
      sum_slabs(place / slabs, first, min(slabs, first + work[1] - place));
      finish(work[0], work[1], work[2], work[3]);
      __syncthreads();
      if (threadIdx.x == 0) work[0] += min(slabs - work[0] % slabs, work[1] - work[0]);
      __syncthreads();
    }
  }

  // Stores the tile to which the slab at `place` belongs, if no other block has to add to it any more.
  DEVICE void finish(int place, int end, int begin, int all) {
    const int tile = place / slabs, whole = tile * slabs, count = min(whole + slabs, end) - place;
    if (place + count == end) let_next_kernel_begin();
    if (count < slabs) {
      const int from = owner(whole, all), to = owner(whole + slabs - 1, all);
      if (!is_complete(place == begin ? 0 : 1, from, to, share(from, all) < whole)) return;
    }
    store(tile);
  }
};

template <class Format, class Shape, bool EXPERTS = false>
DEVICE void gemm(const Format& format, const GemmArguments& a) {
  DYNAMIC_SHARED(u8, shared);
  Gemm<Format, Shape, EXPERTS>(format, a, shared).run();
}

#define GEMM_PARAMETERS                                                                           \
  const u8 *__restrict__ weights, const u8 *__restrict__ tiles, float *__restrict__ partials,     \
      u32 *__restrict__ arrivals, int rows, int inputs, int row_bytes, int columns, EPILOGUE_PARAMETERS
#define GEMM_ARGUMENTS {weights, tiles, partials, arrivals, rows, inputs, row_bytes, columns, EPILOGUE}

// What is compiled of each type: VARIANT(columns, COLUMN_TILES, COLUMN_WARPS, STAGES).
#ifndef GEMM_VARIANTS
#define GEMM_VARIANTS VARIANT(8, 1, 1, 4) VARIANT(16, 2, 1, 4) VARIANT(32, 4, 1, 3) VARIANT(64, 8, 1, 2) VARIANT(128, 8, 2, 2)
#endif
#define GEMM_BOUNDS(COLUMN_TILES, COLUMN_WARPS) __launch_bounds__(128 * COLUMN_WARPS, (COLUMN_WARPS > 1 ? 1 : COLUMN_TILES > 2 ? 2 : 3))
// FORMAT and, in braces, what its parts are.
#define GEMM_KERNEL(NAME, FORMAT, COLUMN_TILES, COLUMN_WARPS, STAGES, ...)                        \
  extern "C" __global__ void GEMM_BOUNDS(COLUMN_TILES, COLUMN_WARPS) NAME(GEMM_PARAMETERS) {      \
    const FORMAT format = FORMAT __VA_ARGS__;                                                     \
    gemm<FORMAT, GemmShape<COLUMN_TILES, COLUMN_WARPS, STAGES>>(format, GEMM_ARGUMENTS);          \
  }                                                                                               \
  EXPORT_KERNEL_NAMED(NAME)
