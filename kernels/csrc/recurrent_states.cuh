// States of recurrent layers, in rows of a pool, and how the sequences of a step advance them.
//
// A step has the tokens of its sequences one after the other: sequence i has tokens starts[i] to
// starts[i + 1]. It begins with the states of row reads[i] of a pool, or with zeros if that is negative.
// After write_tokens[j] of its tokens they are stored to row write_rows[j], for j from write_starts[i] to
// write_starts[i + 1], in ascending order. A sequence without tokens stores nothing. Rows that are read
// and written belong to one sequence, and each thread reads and writes a part of its own.
#pragma once
#include "elements.cuh"

#define STATE_COLUMNS 32  // elements of a value that a block has
#define STATE_STAGED 16   // tokens that are in shared memory

struct StateSteps {
  const int *starts, *reads, *write_starts, *write_tokens, *write_rows;
};

// The next row to store to, and after which token; -1 if there is none.
struct StateWrites {
  int place, end, token;

  DEVICE StateWrites(const StateSteps& steps, int sequence)
      : place(steps.write_starts[sequence]), end(steps.write_starts[sequence + 1]) {
    find(steps);
  }

  DEVICE void find(const StateSteps& steps) { token = place < end ? steps.write_tokens[place] : -1; }

  DEVICE int take(const StateSteps& steps) {
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

DEVICE float softplus(float x) { return x > 20.f ? x : log1pf(expf(x)); }

DEVICE float dot_of_four(float4 a, float4 b) { return a.x * b.x + a.y * b.y + (a.z * b.z + a.w * b.w); }

// The sum over the lanes that have the same element of a value.
DEVICE float sum_of_keys(float sum) {
#pragma unroll
  for (int offset = 8; offset <= 16; offset *= 2) sum += __shfl_xor_sync(EVERY_LANE, sum, offset);
  return sum;
}

// A lane's part of a head's matrix, KEYS by `width`: every fourth four rows of one column. A warp has eight
// columns, a block 32. Lanes behind the last column have zeros.
template <int KEYS>
struct HeadState {
  float s[KEYS / 4];

  DEVICE static int own_column() { return threadIdx.x / 32 * 8 + threadIdx.x % 8; }
  DEVICE static int group() { return threadIdx.x % 32 / 8; }

  // The first of this lane's elements; each four are followed by twelve of other lanes.
  DEVICE static size_t first(int row, int heads, int head, int width, int column) {
    return ((size_t(row) * heads + head) * KEYS + group() * 4) * width + column;
  }

  DEVICE void load(const float* states, int row, int heads, int head, int width, int column) {
    const bool known = row >= 0 && column < width;
    const float* from = states + (known ? first(row, heads, head, width, column) : 0);
#pragma unroll
    for (int i = 0; i < KEYS / 4; ++i, from += i % 4 ? width : 13 * width) s[i] = known ? *from : 0.f;
  }

  DEVICE void store(float* states, int row, int heads, int head, int width, int column) const {
    if (column >= width) return;
    float* to = states + first(row, heads, head, width, column);
#pragma unroll
    for (int i = 0; i < KEYS / 4; ++i, to += i % 4 ? width : 13 * width) *to = s[i];
  }

  // This lane's part of the key times the matrix.
  DEVICE float read(const float4* key) const {
    float found[2] = {0.f, 0.f};
#pragma unroll
    for (int j = 0; j < KEYS / 16; ++j) {
      const float4 k = key[j * 4 + group()];
      const float* const four = s + j * 4;
      found[j % 2] += four[0] * k.x + four[1] * k.y + four[2] * k.z + four[3] * k.w;
    }
    return found[0] + found[1];
  }

  // Decays, and grows by the key times the value.
  DEVICE void write(const float4* key, float value, float decay) {
#pragma unroll
    for (int j = 0; j < KEYS / 16; ++j) {
      const float4 k = key[j * 4 + group()];
      float* const four = s + j * 4;
      four[0] = decay * four[0] + k.x * value, four[1] = decay * four[1] + k.y * value;
      four[2] = decay * four[2] + k.z * value, four[3] = decay * four[3] + k.w * value;
    }
  }
};
