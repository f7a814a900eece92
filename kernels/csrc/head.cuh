// One head of a query, key or value in a warp: quad q, which is elements 4 q to 4 q + 3, is in lane
// q mod 32, so that heads of at most 128 elements have one quad a lane, and larger ones two or four.
//
// Every product and every sum is rounded, in the order of the references in kernels/: results are
// theirs bit for bit, on every device.
#pragma once
#include "elements.cuh"

// What stands where a type of elements (elements.cuh) could: pages of codes with scales.
#define PAGES_Q8 3
#define PAGES_Q4 4

template <int QUADS>
using Head = float[QUADS][4];

// Of this thread's quad i, behind the head's end for some lanes.
DEVICE int first_of(int i, int lane) { return 4 * (lane + 32 * i); }

DEVICE void load_quad(float (&x)[4], const void* from, size_t index, int type) {
  if (type == ELEMENT_F32) {
    const float4 v = *reinterpret_cast<const float4*>(static_cast<const float*>(from) + index);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
  } else {
    const uint2 v = *reinterpret_cast<const uint2*>(static_cast<const u16*>(from) + index);
    x[0] = half_of_type(v.x & 0xffff, type), x[1] = half_of_type(v.x >> 16, type);
    x[2] = half_of_type(v.y & 0xffff, type), x[3] = half_of_type(v.y >> 16, type);
  }
}

DEVICE u32 two_of_type(float low, float high, int type) {
  return type == ELEMENT_F16 ? u32(float_to_half(low)) | u32(float_to_half(high)) << 16
                             : u32(float_to_bf16(low)) | u32(float_to_bf16(high)) << 16;
}

DEVICE void store_quad(void* to, size_t index, const float (&x)[4], int type) {
  if (type == ELEMENT_F32)
    *reinterpret_cast<float4*>(static_cast<float*>(to) + index) = make_float4(x[0], x[1], x[2], x[3]);
  else
    *reinterpret_cast<uint2*>(static_cast<u16*>(to) + index) =
        make_uint2(two_of_type(x[0], x[1], type), two_of_type(x[2], x[3], type));
}

// Zeros behind the end.
template <int QUADS>
DEVICE void load_head(Head<QUADS>& x, const void* from, size_t index, int size, int type, int lane) {
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const int first = first_of(i, lane);
    if (first < size) load_quad(x[i], from, index + first, type);
    else x[i][0] = x[i][1] = x[i][2] = x[i][3] = 0.f;
  }
}

template <int QUADS>
DEVICE void store_head(void* to, size_t index, const Head<QUADS>& x, int size, int type, int lane) {
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    const int first = first_of(i, lane);
    if (first < size) store_quad(to, index + first, x[i], type);
  }
}

// Brings a head to length and multiplies it by `weight`. Squares are summed up as a tree of
// neighbours.
template <int QUADS>
DEVICE void normalise_head(Head<QUADS>& x, const Head<QUADS>& weight, float epsilon, int size) {
  float sums[QUADS];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) {
    float squares[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) squares[k] = rounded_product(x[i][k], x[i][k]);
    sums[i] = rounded_sum(rounded_sum(squares[0], squares[1]), rounded_sum(squares[2], squares[3]));
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2)
      sums[i] = rounded_sum(sums[i], __shfl_xor_sync(EVERY_LANE, sums[i], offset));
  }
#pragma unroll
  for (int apart = 1; apart < QUADS; apart *= 2)
#pragma unroll
    for (int i = 0; i + apart < QUADS; i += 2 * apart) sums[i] = rounded_sum(sums[i], sums[i + apart]);
  const float scale = 1.f / sqrtf(rounded_sum(sums[0] / float(size), epsilon));
#pragma unroll
  for (int i = 0; i < QUADS; ++i)
#pragma unroll
    for (int k = 0; k < 4; ++k) x[i][k] = rounded_product(rounded_product(x[i][k], scale), weight[i][k]);
}

// How the first 2 * pairs elements of a head turn: element j < pairs with element j + pairs.
struct Rotation {
  const float *cosine, *sine;  // (pairs,)
  int pairs;
};

// Four neighbours of a head: which of them turn, how far, and what they turn with. Sines have a
// minus for first elements of pairs, so that an element turns by x * cosine + other * sine, and its
// other one by other * cosine - x * sine.
struct Turn {
  bool turns[4], second[4];
  int pair[4];
  float cosine[4], sine[4], other[4];
};

// All but the others of pairs, so that the tables are on their way before these are known.
DEVICE Turn turn_of(int first, const Rotation& rotation) {
  Turn turn;
  const int pairs = rotation.pairs;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int element = first + k;
    turn.turns[k] = element < 2 * pairs;
    turn.second[k] = element >= pairs;
    turn.pair[k] = turn.second[k] ? element - pairs : element;
    turn.other[k] = turn.cosine[k] = turn.sine[k] = 0.f;
    if (pairs % 4 && turn.turns[k]) {
      turn.cosine[k] = rotation.cosine[turn.pair[k]];
      turn.sine[k] = rotation.sine[turn.pair[k]];
    }
  }
  if (pairs % 4 == 0 && turn.turns[0]) {  // a quad is of one kind
    load_quad(turn.cosine, rotation.cosine, turn.pair[0], ELEMENT_F32);
    load_quad(turn.sine, rotation.sine, turn.pair[0], ELEMENT_F32);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (!turn.second[k]) turn.sine[k] = -turn.sine[k];
  return turn;
}

// From a head as it was before it turned.
DEVICE void load_others(Turn& turn, const float* head, int pairs) {
  if (pairs % 4 == 0) {
    if (turn.turns[0]) load_quad(turn.other, head, turn.second[0] ? turn.pair[0] : turn.pair[0] + pairs, ELEMENT_F32);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (turn.turns[k]) turn.other[k] = head[turn.second[k] ? turn.pair[k] : turn.pair[k] + pairs];
}

DEVICE float turned(float x, float other, float cosine, float sine) {
  return rounded_sum(rounded_product(x, cosine), rounded_product(other, sine));
}

DEVICE void turn_quad(float (&x)[4], const Turn& turn) {
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (turn.turns[k]) x[k] = turned(x[k], turn.other[k], turn.cosine[k], turn.sine[k]);
}
