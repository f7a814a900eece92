// The gate of a feed-forward part: an activation times a second projection.
#pragma once
#include "portable.cuh"

#define GATE_SILU 0
#define GATE_GELU_TANH 1
#define GATE_CLAMPED_SILU 2  // gpt-oss's

// Half of 1 + tanh(x) is a logistic function of 2 x, so both activations are a product with one.
DEVICE float gated(float gate, float up, int activation) {
  if (activation == GATE_CLAMPED_SILU) {
    const float x = gate > 7.f ? 7.f : gate, y = up > 7.f ? 7.f : up < -7.f ? -7.f : up;
    return x * logistic(1.702f * x) * (y + 1.f);
  }
  const float twice = 1.5957691216057308f * (gate + 0.044715f * gate * gate * gate);
  const float x = activation == GATE_SILU ? gate : twice;
  return gate * logistic(x) * up;
}
