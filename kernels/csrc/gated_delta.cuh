// A gated DeltaNet between its projections: the convolution, the recurrence, and the gated norm.
//
// A step has the tokens of its sequences one after the other: sequence i has tokens starts[i] to
// starts[i + 1]. It begins with the states of row reads[i] of a pool, or with zeros if that is negative.
// After write_tokens[j] of its tokens they are stored to row write_rows[j], for j from write_starts[i] to
// write_starts[i + 1], in ascending order. A sequence without tokens stores nothing. Rows that are read
// and written belong to one sequence, and each thread reads and writes a part of its own.
#pragma once
#include "elements.cuh"
#include "store_q8.cuh"

#define DELTA_TAPS 4
#define DELTA_HEAD 128    // elements of a key, and of a value
#define DELTA_COLUMNS 32  // elements of a value that a block has
#define DELTA_STAGED 16   // tokens that are in shared memory
#define DELTA_PREFETCHED 8
#define DELTA_EPSILON 1e-6f

struct DeltaSteps {
  const int *starts, *reads, *write_starts, *write_tokens, *write_rows;
};

// The next row to store to, and after which token; -1 if there is none.
struct DeltaWrites {
  int place, end, token;

  DEVICE DeltaWrites(const DeltaSteps& steps, int sequence)
      : place(steps.write_starts[sequence]), end(steps.write_starts[sequence + 1]) {
    find(steps);
  }

  DEVICE void find(const DeltaSteps& steps) { token = place < end ? steps.write_tokens[place] : -1; }

  DEVICE int take(const DeltaSteps& steps) {
    const int row = steps.write_rows[place++];
    find(steps);
    return row;
  }
};

DEVICE float load_one(const void* x, size_t index, int type) {
  return type == ELEMENT_F32 ? static_cast<const float*>(x)[index] : half_of_type(static_cast<const u16*>(x)[index], type);
}

DEVICE float sum_of_lanes(float sum) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(EVERY_LANE, sum, offset);
  return sum;
}

// out (tokens, channels): SiLU of each channel's last four inputs times its weights (channels, 4), of which
// the last belongs to the token itself. states (rows, channels, 3) are inputs, the oldest first.
// Grid: channels / 128, sequences.
extern "C" __global__ void __launch_bounds__(128) delta_convolve(
    const void* mixed, const float* weight, float* states, const int* starts, const int* reads,
    const int* write_starts, const int* write_tokens, const int* write_rows, float* out, int stride, int type,
    int channels) {
  const int channel = blockIdx.x * 128 + threadIdx.x, sequence = blockIdx.y;
  const uint4 bits = load_streaming_16(weight + size_t(channel) * DELTA_TAPS);
  const float w0 = bits_to_float(bits.x), w1 = bits_to_float(bits.y), w2 = bits_to_float(bits.z), w3 = bits_to_float(bits.w);
  wait_for_previous_kernel();
  const DeltaSteps steps = {starts, reads, write_starts, write_tokens, write_rows};
  const int start = starts[sequence], end = starts[sequence + 1], read = reads[sequence];
  if (start == end) return;
  float a = 0.f, b = 0.f, c = 0.f;
  if (read >= 0) {
    const float* const state = states + (size_t(read) * channels + channel) * (DELTA_TAPS - 1);
    a = state[0], b = state[1], c = state[2];
  }
  DeltaWrites writes(steps, sequence);
  for (int first = start; first < end; first += DELTA_PREFETCHED) {
    float inputs[DELTA_PREFETCHED];
#pragma unroll
    for (int i = 0; i < DELTA_PREFETCHED; ++i)
      inputs[i] = first + i < end ? load_one(mixed, size_t(first + i) * stride + channel, type) : 0.f;
    if (first + DELTA_PREFETCHED >= end) let_next_kernel_begin();
#pragma unroll
    for (int i = 0; i < DELTA_PREFETCHED; ++i) {
      const int token = first + i;
      if (token >= end) break;
      const float x = inputs[i], sum = w0 * a + w1 * b + w2 * c + w3 * x;
      out[size_t(token) * channels + channel] = sum * logistic(sum);
      a = b, b = c, c = x;
      while (writes.token == token + 1 - start) {
        float* const state = states + (size_t(writes.take(steps)) * channels + channel) * (DELTA_TAPS - 1);
        state[0] = a, state[1] = b, state[2] = c;
      }
    }
  }
}
EXPORT_KERNEL(delta_convolve)

struct DeltaShape {
  int key_heads, value_heads, takes_turns;  // whether every key_heads-th head of values has the same key, or neighbours
  int rate_stride, rates_together, rates_apart;  // so many heads' rates are neighbours, a distance apart from the next ones

  DEVICE int channels() const { return (2 * key_heads + value_heads) * DELTA_HEAD; }
  DEVICE int key_of(int head) const { return takes_turns ? head % key_heads : head / (value_heads / key_heads); }
  DEVICE int rate_of(int head) const { return head / rates_together * rates_apart + head % rates_together; }
};

// Some tokens of one head, in shared memory.
struct DeltaTokens {
  float *query, *key, *value;
  float4* facts;  // what is left of the state, how much of the value is corrected, key times query
};

struct DeltaInputs {
  const float *mixed, *rates, *steps, *decay, *bias;
};

// A warp's work for each of its tokens: the query and the key brought to length, and the gates.
DEVICE void stage_tokens(const DeltaTokens& staged, const DeltaInputs& in, const DeltaShape& shape, int head, int column,
                         int first, int count) {
  const int lane = threadIdx.x % 32, key_head = shape.key_of(head), keys = shape.key_heads * DELTA_HEAD;
  for (int i = threadIdx.x / 32; i < count; i += blockDim.x / 32) {
    const size_t row = size_t(first + i) * shape.channels(), place = key_head * DELTA_HEAD + lane * 4;
    const float4 q = load_four(in.mixed, row + place, ELEMENT_F32), k = load_four(in.mixed, row + keys + place, ELEMENT_F32);
    staged.value[i * DELTA_COLUMNS + lane] = in.mixed[row + 2 * keys + head * DELTA_HEAD + column + lane];
    const size_t rate = size_t(first + i) * shape.rate_stride + shape.rate_of(head);
    const float step = in.steps[rate] + in.bias[head];
    const float lasting = step > 20.f ? step : log1pf(expf(step));
    const float of_query = sum_of_lanes(q.x * q.x + q.y * q.y + (q.z * q.z + q.w * q.w));
    const float of_key = sum_of_lanes(k.x * k.x + k.y * k.y + (k.z * k.z + k.w * k.w));
    const float of_both = sum_of_lanes(q.x * k.x + q.y * k.y + (q.z * k.z + q.w * k.w));
    const float q_scale = 0.08838834764831845f / sqrtf(of_query + DELTA_EPSILON), k_scale = 1.f / sqrtf(of_key + DELTA_EPSILON);
    reinterpret_cast<float4*>(staged.query)[i * 32 + lane] = make_float4(q.x * q_scale, q.y * q_scale, q.z * q_scale, q.w * q_scale);
    reinterpret_cast<float4*>(staged.key)[i * 32 + lane] = make_float4(k.x * k_scale, k.y * k_scale, k.z * k_scale, k.w * k_scale);
    if (lane == 0)
      staged.facts[i] = make_float4(expf(in.decay[head] * lasting), 1.f / (1.f + expf(-in.rates[rate])), of_both * q_scale * k_scale, 0.f);
  }
}

// A lane's part of the state: every fourth four elements of keys, by one of values.
struct DeltaState {
  float s[DELTA_HEAD / 4];

  DEVICE static size_t place(int row, int heads, int head, int i, int column) {
    const int key = (i / 4 * 4 + threadIdx.x % 32 / 8) * 4 + i % 4;
    return ((size_t(row) * heads + head) * DELTA_HEAD + key) * DELTA_HEAD + column;
  }

  DEVICE void load(const float* states, int row, int heads, int head, int column) {
#pragma unroll
    for (int i = 0; i < DELTA_HEAD / 4; ++i) s[i] = row < 0 ? 0.f : states[place(row, heads, head, i, column)];
  }

  DEVICE void store(float* states, int row, int heads, int head, int column) const {
#pragma unroll
    for (int i = 0; i < DELTA_HEAD / 4; ++i) states[place(row, heads, head, i, column)] = s[i];
  }

  // What the query finds once the token is written. Both sums are over the state before it, so that they
  // are reduced together: query times the new state is decay times the old sum, plus key times query of
  // what is written.
  DEVICE float advance(const float4* query, const float4* key, float value, float4 facts) {
    const int group = threadIdx.x % 32 / 8;
    float known[2] = {0.f, 0.f}, found[2] = {0.f, 0.f};
#pragma unroll
    for (int j = 0; j < DELTA_HEAD / 16; ++j) {
      const float4 k = key[j * 4 + group], q = query[j * 4 + group];
      const float* const four = s + j * 4;
      known[j % 2] += four[0] * k.x + four[1] * k.y + four[2] * k.z + four[3] * k.w;
      found[j % 2] += four[0] * q.x + four[1] * q.y + four[2] * q.z + four[3] * q.w;
    }
    float known_sum = known[0] + known[1], found_sum = found[0] + found[1];
#pragma unroll
    for (int offset = 8; offset <= 16; offset *= 2) {
      known_sum += __shfl_xor_sync(EVERY_LANE, known_sum, offset);
      found_sum += __shfl_xor_sync(EVERY_LANE, found_sum, offset);
    }
    const float decay = facts.x, written = (value - decay * known_sum) * facts.y;
#pragma unroll
    for (int j = 0; j < DELTA_HEAD / 16; ++j) {
      const float4 k = key[j * 4 + group];
      float* const four = s + j * 4;
      four[0] = decay * four[0] + k.x * written, four[1] = decay * four[1] + k.y * written;
      four[2] = decay * four[2] + k.z * written, four[3] = decay * four[3] + k.w * written;
    }
    return decay * found_sum + written * facts.z;
  }
};

// out (tokens, value_heads * 128): what each query finds in the states (rows, value_heads, 128, 128), keys by
// values, which decay and are corrected token by token. mixed (tokens, channels) are queries, keys and values
// of all heads, not brought to length. Rates and steps are those of `shape`; decay and bias (value_heads,).
//
// A warp has eight elements of values, four lanes for each. Grid: 4, value heads, sequences.
extern "C" __global__ void __launch_bounds__(128) gated_delta(
    const float* mixed, const float* rates, const float* rate_steps, const float* decay, const float* bias,
    float* states, const int* starts, const int* reads, const int* write_starts, const int* write_tokens,
    const int* write_rows, float* out, int key_heads, int value_heads, int takes_turns, int rate_stride,
    int rates_together, int rates_apart) {
  SHARED_ARRAY(float, queries, DELTA_STAGED * DELTA_HEAD);
  SHARED_ARRAY(float, keys, DELTA_STAGED * DELTA_HEAD);
  SHARED_ARRAY(float, values, DELTA_STAGED * DELTA_COLUMNS);
  SHARED_ARRAY(float4, facts, DELTA_STAGED);
  const DeltaTokens staged = {queries, keys, values, facts};
  const DeltaShape shape = {key_heads, value_heads, takes_turns, rate_stride, rates_together, rates_apart};
  const DeltaSteps steps = {starts, reads, write_starts, write_tokens, write_rows};
  const int head = blockIdx.y, sequence = blockIdx.z, first_column = blockIdx.x * DELTA_COLUMNS;
  const int own = threadIdx.x / 32 * 8 + threadIdx.x % 8, column = first_column + own;
  wait_for_previous_kernel();
  const int start = starts[sequence], end = starts[sequence + 1];
  if (start == end) return;
  DeltaState state;
  state.load(states, reads[sequence], value_heads, head, column);
  DeltaWrites writes(steps, sequence);
  for (int first = start; first < end; first += DELTA_STAGED) {
    const int count = end - first < DELTA_STAGED ? end - first : DELTA_STAGED;
    stage_tokens(staged, {mixed, rates, rate_steps, decay, bias}, shape, head, first_column, first, count);
    __syncthreads();
    if (first + count == end) let_next_kernel_begin();
    for (int i = 0; i < count; ++i) {
      const float found = state.advance(reinterpret_cast<const float4*>(queries) + i * 32,
                                        reinterpret_cast<const float4*>(keys) + i * 32, values[i * DELTA_COLUMNS + own], facts[i]);
      if (threadIdx.x % 32 < 8) out[(size_t(first + i) * value_heads + head) * DELTA_HEAD + column] = found;
      while (writes.token == first + i + 1 - start) state.store(states, writes.take(steps), value_heads, head, column);
    }
    __syncthreads();
  }
}
EXPORT_KERNEL(gated_delta)

// The RMS norm of each head of rows (tokens, heads * 128), times its weight (128,) and SiLU of the gate, as
// numbers and as bytes with scales. Either result may be null. Grid: tokens, heads / 4 rounded up.
extern "C" __global__ void __launch_bounds__(128) gate_heads(
    const float* rows, const void* gate, const float* weight, void* dense, u8* tiles, int gate_stride, int type,
    int dense_type, int heads, float epsilon) {
  const int lane = threadIdx.x % 32, head = blockIdx.y * 4 + threadIdx.x / 32, first = head * DELTA_HEAD + lane * 4;
  const bool inside = head < heads;
  const uint4 bits = load_streaming_16(weight + lane * 4);
  const float4 w = make_float4(bits_to_float(bits.x), bits_to_float(bits.y), bits_to_float(bits.z), bits_to_float(bits.w));
  wait_for_previous_kernel();
  float4 v = make_float4(0.f, 0.f, 0.f, 0.f), g = v;
  if (inside) {
    v = load_four(rows, size_t(blockIdx.x) * heads * DELTA_HEAD + first, ELEMENT_F32);
    g = load_four(gate, size_t(blockIdx.x) * gate_stride + first, type);
  }
  let_next_kernel_begin();
  const float scale = 1.f / sqrtf(sum_of_lanes(v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w)) / DELTA_HEAD + epsilon);
  v = make_float4(v.x * scale * w.x * g.x * logistic(g.x), v.y * scale * w.y * g.y * logistic(g.y),
                  v.z * scale * w.z * g.z * logistic(g.z), v.w * scale * w.w * g.w * logistic(g.w));
  if (inside && dense) store_four(dense, size_t(blockIdx.x) * heads * DELTA_HEAD + first, v, dense_type);
  if (tiles) store_q8(tiles, gridDim.x, blockIdx.x, first, v, inside);
}
EXPORT_KERNEL(gate_heads)
