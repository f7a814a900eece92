// What becomes of the products of a matrix, whichever kernel computed them.
//
// Product (column, row) is one token's output `row`. It goes to y[column * stride + row], so that
// several matrices can write parts of the rows of one tensor, or is added to a residual stream there.
#pragma once
#include "elements.cuh"

// Instead of an element type: y is single precision, and products are added to it.
#define EPILOGUE_ADD 3

struct Epilogue {
  void* y;
  const float* bias;  // (rows,), or null
  float scale;        // of what is added
  int stride, type;   // of y: elements from column to column; an element type, or EPILOGUE_ADD
};

#define EPILOGUE_PARAMETERS void *__restrict__ y, const float *__restrict__ bias, float scale, int stride, int type
#define EPILOGUE {y, bias, scale, stride, type}

// Nobody else may store the same product: each is one thread's.
DEVICE void store_product(const Epilogue& e, int column, int row, float value) {
  if (e.bias) value += e.bias[row];
  const size_t index = size_t(column) * e.stride + row;
  // Added where the memory is: nobody waits for what was there, and the sum is rounded once.
  if (e.type == EPILOGUE_ADD) add_in_memory(static_cast<float*>(e.y) + index, e.scale * value);
  else store_one(e.y, index, value, e.type);
}
