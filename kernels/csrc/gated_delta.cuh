// A gated DeltaNet behind its convolution: the recurrence, and the gated norm.
#pragma once
#include "recurrent_states.cuh"
#include "store_q8.cuh"

#define DELTA_HEAD 128  // elements of a key, and of a value
#define DELTA_EPSILON 1e-6f

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
    staged.value[i * STATE_COLUMNS + lane] = in.mixed[row + 2 * keys + head * DELTA_HEAD + column + lane];
    const size_t rate = size_t(first + i) * shape.rate_stride + shape.rate_of(head);
    const float lasting = softplus(in.steps[rate] + in.bias[head]);
    const float of_query = sum_of_lanes(dot_of_four(q, q)), of_key = sum_of_lanes(dot_of_four(k, k));
    const float of_both = sum_of_lanes(dot_of_four(q, k));
    const float q_scale = 0.08838834764831845f / sqrtf(of_query + DELTA_EPSILON), k_scale = 1.f / sqrtf(of_key + DELTA_EPSILON);
    reinterpret_cast<float4*>(staged.query)[i * 32 + lane] = make_float4(q.x * q_scale, q.y * q_scale, q.z * q_scale, q.w * q_scale);
    reinterpret_cast<float4*>(staged.key)[i * 32 + lane] = make_float4(k.x * k_scale, k.y * k_scale, k.z * k_scale, k.w * k_scale);
    if (lane == 0)
      staged.facts[i] = make_float4(expf(in.decay[head] * lasting), 1.f / (1.f + expf(-in.rates[rate])), of_both * q_scale * k_scale, 0.f);
  }
}

// What the query finds once the token is written. Both sums are over the state before it, so that their
// shuffles overlap: query times the new state is decay times the old sum, plus key times query of what is
// written.
DEVICE float advance_delta(HeadState<DELTA_HEAD>& state, const float4* query, const float4* key, float value, float4 facts) {
  const float known = state.read(key), found = state.read(query);
  const float decay = facts.x, written = (value - decay * sum_of_keys(known)) * facts.y;
  const float before = sum_of_keys(found);
  state.write(key, written, decay);
  return decay * before + written * facts.z;
}

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
  SHARED_ARRAY(float, queries, STATE_STAGED * DELTA_HEAD);
  SHARED_ARRAY(float, keys, STATE_STAGED * DELTA_HEAD);
  SHARED_ARRAY(float, values, STATE_STAGED * STATE_COLUMNS);
  SHARED_ARRAY(float4, facts, STATE_STAGED);
  const DeltaTokens staged = {queries, keys, values, facts};
  const DeltaShape shape = {key_heads, value_heads, takes_turns, rate_stride, rates_together, rates_apart};
  const StateSteps steps = {starts, reads, write_starts, write_tokens, write_rows};
  const int head = blockIdx.y, sequence = blockIdx.z, first_column = blockIdx.x * STATE_COLUMNS;
  const int own = HeadState<DELTA_HEAD>::own_column(), column = first_column + own;
  wait_for_previous_kernel();
  const int start = starts[sequence], end = starts[sequence + 1];
  if (start == end) return;
  HeadState<DELTA_HEAD> state;
  state.load(states, reads[sequence], value_heads, head, DELTA_HEAD, column);
  StateWrites writes(steps, sequence);
  for (int first = start; first < end; first += STATE_STAGED) {
    const int count = end - first < STATE_STAGED ? end - first : STATE_STAGED;
    stage_tokens(staged, {mixed, rates, rate_steps, decay, bias}, shape, head, first_column, first, count);
    __syncthreads();
    if (first + count == end) let_next_kernel_begin();
    for (int i = 0; i < count; ++i) {
      const float found = advance_delta(state, reinterpret_cast<const float4*>(queries) + i * 32,
                                        reinterpret_cast<const float4*>(keys) + i * 32, values[i * STATE_COLUMNS + own], facts[i]);
      if (threadIdx.x % 32 < 8) out[(size_t(first + i) * value_heads + head) * DELTA_HEAD + column] = found;
      while (writes.token == first + i + 1 - start) state.store(states, writes.take(steps), value_heads, head, DELTA_HEAD, column);
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
  const float scale = 1.f / sqrtf(sum_of_lanes(dot_of_four(v, v)) / DELTA_HEAD + epsilon);
  v = make_float4(v.x * scale * w.x * g.x * logistic(g.x), v.y * scale * w.y * g.y * logistic(g.y),
                  v.z * scale * w.z * g.z * logistic(g.z), v.w * scale * w.w * g.w * logistic(g.w));
  if (inside && dense) store_four(dense, size_t(blockIdx.x) * heads * DELTA_HEAD + first, v, dense_type);
  if (tiles) store_q8(tiles, gridDim.x, blockIdx.x, first, v, inside);
}
EXPORT_KERNEL(gate_heads)
