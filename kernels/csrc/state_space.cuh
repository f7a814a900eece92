// A state space of Mamba-2 behind its convolution: the recurrence, and the norm of what is gated.
#pragma once
#include "recurrent_states.cuh"
#include "row_part.cuh"

struct SpaceShape {
  int heads, head_size, groups, step_stride;

  DEVICE int width() const { return heads * head_size; }
};

struct SpaceInputs {
  const float *mixed, *steps, *decay, *bias, *skip;
};

// Some tokens of one head, in shared memory.
struct SpaceTokens {
  float *write, *read, *x;
  float4* facts;  // what is left of the state, how much of x is written, how much of it is seen at once
};

// A warp's work for each of its tokens.
template <int SIZE>
DEVICE void stage_space(const SpaceTokens& staged, const SpaceInputs& in, const SpaceShape& shape, int head, int column,
                        int first, int count) {
  const int lane = threadIdx.x % 32, group = head / (shape.heads / shape.groups), all = shape.groups * SIZE;
  for (int i = threadIdx.x / 32; i < count; i += blockDim.x / 32) {
    const float* const row = in.mixed + size_t(first + i) * (shape.width() + 2 * all);
    const float* const places = row + shape.width() + group * SIZE;
    float both = 0.f;
#pragma unroll
    for (int j = 0; j < SIZE / 128; ++j) {
      const int four = j * 32 + lane;
      const float4 write = load_four(places, four * 4, ELEMENT_F32), read = load_four(places + all, four * 4, ELEMENT_F32);
      reinterpret_cast<float4*>(staged.write)[i * (SIZE / 4) + four] = write;
      reinterpret_cast<float4*>(staged.read)[i * (SIZE / 4) + four] = read;
      both += dot_of_four(write, read);
    }
    both = sum_of_lanes(both);
    const bool inside = column + lane < shape.head_size;
    staged.x[i * STATE_COLUMNS + lane] = inside ? row[head * shape.head_size + column + lane] : 0.f;
    const float lasting = softplus(in.steps[size_t(first + i) * shape.step_stride + head] + in.bias[head]);
    if (lane == 0) staged.facts[i] = make_float4(expf(in.decay[head] * lasting), lasting, both * lasting + in.skip[head], 0.f);
  }
}

// out (tokens, heads * head_size): what each token reads from the states (rows, heads, SIZE, head_size), which
// decay, and to which its x is written, and its x times `skip`. mixed (tokens, channels) are x of all heads,
// then where each group of heads writes, then where it reads; steps, bias, decay and skip are those of heads.
//
// A token reads its own x, too: read times the new state is decay times the old sum, plus write times read of
// what is written. A warp has eight elements of x, four lanes for each.
// Grid: head_size / 32 rounded up, heads, sequences.
#define STATE_SPACE(SIZE)                                                                              \
  extern "C" __global__ void __launch_bounds__(128, 4) state_space_##SIZE(                                \
      const float* mixed, const float* token_steps, const float* decay, const float* bias, const float* skip, \
      float* states, const int* starts, const int* reads, const int* write_starts, const int* write_tokens, \
      const int* write_rows, float* out, int heads, int head_size, int groups, int step_stride) {      \
    const StateSteps steps = {starts, reads, write_starts, write_tokens, write_rows};                  \
    advance_space<SIZE>({mixed, token_steps, decay, bias, skip}, {heads, head_size, groups, step_stride}, states, steps, out); \
  }                                                                                                    \
  EXPORT_KERNEL(state_space_##SIZE)

template <int SIZE>
DEVICE void advance_space(const SpaceInputs& in, const SpaceShape& shape, float* states, const StateSteps& steps, float* out) {
  SHARED_ARRAY(float, places_written, STATE_STAGED * SIZE);
  SHARED_ARRAY(float, places_read, STATE_STAGED * SIZE);
  SHARED_ARRAY(float, inputs, STATE_STAGED * STATE_COLUMNS);
  SHARED_ARRAY(float4, facts, STATE_STAGED);
  const SpaceTokens staged = {places_written, places_read, inputs, facts};
  const int head = blockIdx.y, sequence = blockIdx.z, first_column = blockIdx.x * STATE_COLUMNS;
  const int own = HeadState<SIZE>::own_column(), column = first_column + own, size = shape.head_size;
  wait_for_previous_kernel();
  const int start = steps.starts[sequence], end = steps.starts[sequence + 1];
  if (start == end) return;
  HeadState<SIZE> state;
  state.load(states, steps.reads[sequence], shape.heads, head, size, column);
  StateWrites writes(steps, sequence);
  for (int first = start; first < end; first += STATE_STAGED) {
    const int count = end - first < STATE_STAGED ? end - first : STATE_STAGED;
    stage_space<SIZE>(staged, in, shape, head, first_column, first, count);
    __syncthreads();
    if (first + count == end) let_next_kernel_begin();
    for (int i = 0; i < count; ++i) {
      const float x = inputs[i * STATE_COLUMNS + own];
      const float before = sum_of_keys(state.read(reinterpret_cast<const float4*>(places_read) + i * (SIZE / 4)));
      state.write(reinterpret_cast<const float4*>(places_written) + i * (SIZE / 4), x * facts[i].y, facts[i].x);
      if (threadIdx.x % 32 < 8 && column < size)
        out[size_t(first + i) * shape.width() + head * size + column] = facts[i].x * before + x * facts[i].z;
      while (writes.token == first + i + 1 - start) state.store(states, writes.take(steps), shape.heads, head, size, column);
    }
    __syncthreads();
  }
}

#define STATE_SPACE_VARIANTS STATE_SPACE(128) STATE_SPACE(256)
STATE_SPACE_VARIANTS

// The RMS norm of each group of rows (tokens, groups * size) times SiLU of the gate, times its weight
// (groups * size,), as numbers and as bytes with scales. Either result may be null. `size` is a multiple of 32
// and at most 4 * VECTORS times the threads. Grid: tokens, groups.
template <int VECTORS>
DEVICE void norm_groups(const float* rows, const float* gate, const float* weight, void* dense, u8* tiles,
                        int gate_stride, int dense_type, int size, float epsilon) {
  SHARED_ARRAY(float, sums, ROW_WARPS);
  const int token = blockIdx.x, first = blockIdx.y * size, width = gridDim.y * size;
  const int place = threadIdx.x * 32;
  if (place < size) prefetch_to_l2(weight + first + place);
  wait_for_previous_kernel();
  RowPart<VECTORS> row, gates, weights;
  row.load_floats(rows + size_t(token) * width + first, size);
  gates.load_floats(gate + size_t(token) * gate_stride + first, size);
  weights.load_floats(weight + first, size);
  let_next_kernel_begin();
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    const float4 g = gates.v[i];
    float4& v = row.v[i];
    v = make_float4(v.x * g.x * logistic(g.x), v.y * g.y * logistic(g.y), v.z * g.z * logistic(g.z), v.w * g.w * logistic(g.w));
  }
  row.multiply(weights, row.scale(sums, size, epsilon));
  if (dense) row.store(dense, size_t(token) * width + first, dense_type, size);
  if (tiles) row.store_tiles(tiles, gridDim.x, token, first, size);
}

#define NORM_GROUPS(THREADS, VECTORS)                                                                  \
  extern "C" __global__ void __launch_bounds__(THREADS) norm_groups_v##VECTORS(                        \
      const float* rows, const float* gate, const float* weight, void* dense, u8* tiles, int gate_stride, \
      int dense_type, int size, float epsilon) {                                                       \
    norm_groups<VECTORS>(rows, gate, weight, dense, tiles, gate_stride, dense_type, size, epsilon);    \
  }                                                                                                    \
  EXPORT_KERNEL(norm_groups_v##VECTORS)
#define NORM_GROUPS_VARIANTS NORM_GROUPS(512, 1) NORM_GROUPS(512, 2) NORM_GROUPS(512, 4)
NORM_GROUPS_VARIANTS
