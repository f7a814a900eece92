// Convolutions over a sequence's last tokens, each channel by itself, with its inputs as the state: states
// (rows, channels, taps - 1), the oldest first. Weights are (channels, taps), the last for the token itself.
// `bias` (channels,) may be null.
#pragma once
#include "recurrent_states.cuh"
#include "store_q8.cuh"

#define PREFETCHED_TOKENS 8
#define GATED_PREFETCHED 4
#define GATED_TAPS 3

// A channel's inputs before the next token.
template <int TAPS>
struct InputWindow {
  float past[TAPS - 1];

  DEVICE void load(const float* states, int row, int channels, int channel) {
    const float* const state = states + (size_t(row < 0 ? 0 : row) * channels + channel) * (TAPS - 1);
#pragma unroll
    for (int i = 0; i < TAPS - 1; ++i) past[i] = row < 0 ? 0.f : state[i];
  }

  DEVICE void store(float* states, int row, int channels, int channel) const {
    float* const state = states + (size_t(row) * channels + channel) * (TAPS - 1);
#pragma unroll
    for (int i = 0; i < TAPS - 1; ++i) state[i] = past[i];
  }

  // The sum that ends with x, which is then the last one before.
  DEVICE float advance(const float* weight, float bias, float x) {
    float sum = weight[0] * past[0];
#pragma unroll
    for (int i = 1; i < TAPS - 1; ++i) sum += weight[i] * past[i];
    sum += weight[TAPS - 1] * x;
#pragma unroll
    for (int i = 0; i < TAPS - 2; ++i) past[i] = past[i + 1];
    past[TAPS - 2] = x;
    return sum + bias;
  }
};

// FOURS times four neighbours that no kernel of a step writes.
template <int FOURS>
DEVICE void load_weights(float (&weight)[4 * FOURS], const float* from) {
#pragma unroll
  for (int i = 0; i < FOURS; ++i) {
    const uint4 bits = load_streaming_16(from + i * 4);
    weight[i * 4] = bits_to_float(bits.x), weight[i * 4 + 1] = bits_to_float(bits.y);
    weight[i * 4 + 2] = bits_to_float(bits.z), weight[i * 4 + 3] = bits_to_float(bits.w);
  }
}

// out (tokens, channels): SiLU of the convolution of x, with four taps. Grid: channels / 128, sequences.
extern "C" __global__ void __launch_bounds__(128) convolve_silu(
    const void* x, const float* weights, const float* bias, float* states, const int* starts, const int* reads,
    const int* write_starts, const int* write_tokens, const int* write_rows, float* out, int stride, int type,
    int channels) {
  const int channel = blockIdx.x * 128 + threadIdx.x, sequence = blockIdx.y;
  float weight[4];
  load_weights<1>(weight, weights + size_t(channel) * 4);
  const float added = bias ? bits_to_float(load_streaming_4(bias + channel)) : 0.f;
  wait_for_previous_kernel();
  const StateSteps steps = {starts, reads, write_starts, write_tokens, write_rows};
  const int start = starts[sequence], end = starts[sequence + 1];
  if (start == end) return;
  InputWindow<4> window;
  window.load(states, reads[sequence], channels, channel);
  StateWrites writes(steps, sequence);
  for (int first = start; first < end; first += PREFETCHED_TOKENS) {
    float inputs[PREFETCHED_TOKENS];
#pragma unroll
    for (int i = 0; i < PREFETCHED_TOKENS; ++i)
      inputs[i] = first + i < end ? load_one(x, size_t(first + i) * stride + channel, type) : 0.f;
    if (first + PREFETCHED_TOKENS >= end) let_next_kernel_begin();
#pragma unroll
    for (int i = 0; i < PREFETCHED_TOKENS; ++i) {
      const int token = first + i;
      if (token >= end) break;
      const float sum = window.advance(weight, added, inputs[i]);
      out[size_t(token) * channels + channel] = sum * logistic(sum);
      while (writes.token == token + 1 - start) window.store(states, writes.take(steps), channels, channel);
    }
  }
}
EXPORT_KERNEL(convolve_silu)

// after * convolution(before * x), with three taps, as numbers and as bytes with scales; either may be null.
// A row of `thirds` has before, after and x, `channels` each, a multiple of 128. A lane has four neighbours.
// Grid: channels / 128, sequences.
extern "C" __global__ void __launch_bounds__(32, 16) convolve_gated(
    const void* thirds, const float* weights, const float* bias, float* states, const int* starts,
    const int* reads, const int* write_starts, const int* write_tokens, const int* write_rows, void* dense,
    u8* tiles, int stride, int type, int dense_type, int channels, int tokens) {
  const int channel = blockIdx.x * 128 + threadIdx.x * 4, sequence = blockIdx.y;
  float weight[4 * GATED_TAPS], added[4] = {0.f, 0.f, 0.f, 0.f};
  load_weights<GATED_TAPS>(weight, weights + size_t(channel) * GATED_TAPS);
  if (bias) load_weights<1>(added, bias + channel);
  wait_for_previous_kernel();
  const StateSteps steps = {starts, reads, write_starts, write_tokens, write_rows};
  const int start = starts[sequence], end = starts[sequence + 1];
  if (start == end) return;
  InputWindow<GATED_TAPS> windows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) windows[i].load(states, reads[sequence], channels, channel + i);
  StateWrites writes(steps, sequence);
  for (int first = start; first < end; first += GATED_PREFETCHED) {
    float4 before[GATED_PREFETCHED], after[GATED_PREFETCHED], x[GATED_PREFETCHED];
#pragma unroll
    for (int i = 0; i < GATED_PREFETCHED; ++i) {
      const size_t place = size_t(first + i < end ? first + i : start) * stride + channel;
      before[i] = load_four(thirds, place, type);
      after[i] = load_four(thirds, place + channels, type);
      x[i] = load_four(thirds, place + 2 * channels, type);
    }
    if (first + GATED_PREFETCHED >= end) let_next_kernel_begin();
#pragma unroll
    for (int i = 0; i < GATED_PREFETCHED; ++i) {
      const int token = first + i;
      if (token >= end) break;
      const float4 found = make_float4(after[i].x * windows[0].advance(weight, added[0], before[i].x * x[i].x),
                                       after[i].y * windows[1].advance(weight + 3, added[1], before[i].y * x[i].y),
                                       after[i].z * windows[2].advance(weight + 6, added[2], before[i].z * x[i].z),
                                       after[i].w * windows[3].advance(weight + 9, added[3], before[i].w * x[i].w));
      if (dense) store_four(dense, size_t(token) * channels + channel, found, dense_type);
      if (tiles) store_q8(tiles, tokens, token, channel, found, true);
      while (writes.token == token + 1 - start) {
        const int row = writes.take(steps);
#pragma unroll
        for (int j = 0; j < 4; ++j) windows[j].store(states, row, channels, channel + j);
      }
    }
  }
}
EXPORT_KERNEL(convolve_gated)
