// bfloat16 weights × float activations, summed in float.
//
// An output is one chain of fused multiply-adds in the order of the columns, whatever the tile: so a row's result does
// not depend on which rows are computed beside it (batch invariance). A processor needs several chains at once, which
// come from other rows and, where rows are few, from other blocks of 16 outputs.
#pragma once
#include <algorithm>

#include "activations.h"

namespace bf16 {

#if defined(__AVX512F__)
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 5;  // ten registers of sums; with twelve, compilers spill
#endif
constexpr size_t kPrefetchBytes = 2048;

// One column of a pair, of 16 rows of weights, into the sums of M rows of activations.
template <int M>
inline void add(simd::Floats weights, const float* values, size_t stride, simd::Floats* sums) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) sums[m] = simd::fma(weights, simd::splat(values[m * stride]), sums[m]);
}

// 16 outputs of each of the B blocks from `index` on, for M rows: out[b * M + m].
template <int M, int B>
inline void multiply(const PackedMatrix& w, int index, FloatRows x, int row, simd::Floats* out) {
  simd::Floats sums[B * M];
#pragma GCC unroll 16
  for (int i = 0; i < B * M; ++i) sums[i] = simd::splat(0);
  const uint8_t* block = w.block(index, 0);
  const size_t next = w.groups() * PackedMatrix::kBf16Block;
  const float* values = x.row(row);
  for (int group = 0; group < w.groups(); ++group, block += PackedMatrix::kBf16Block, values += kGroup)
#pragma GCC unroll 4
    for (int z = 0; z < kGroup / 2; ++z)
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) {
        const uint8_t* from = block + b * next + 64 * z;
        if (M == 1) simd::prefetch(from + kPrefetchBytes);
        // The barriers keep one column in registers at a time: there is no room for two beside the sums.
        asm volatile("" ::: "memory");
        add<M>(simd::load_bf16_first(from), values + 2 * z, x.stride, sums + b * M);
        asm volatile("" ::: "memory");
        add<M>(simd::load_bf16_second(from), values + 2 * z + 1, x.stride, sums + b * M);
      }
#pragma GCC unroll 16
  for (int i = 0; i < B * M; ++i) out[i] = sums[i];
}

// The same for a number of rows known at run time, at most M.
template <int B, int M = kTileRows>
inline void multiply_rows(const PackedMatrix& w, int index, FloatRows x, int row, int count, simd::Floats* out) {
  if constexpr (M == 1) {
    multiply<1, B>(w, index, x, row, out);
  } else {
    count == M ? multiply<M, B>(w, index, x, row, out) : multiply_rows<B, M - 1>(w, index, x, row, count, out);
  }
}

// All of `num_rows` rows, B blocks at a time while as many are left; gives the first block not computed.
template <int M, int B, class Emit>
inline int matmul_blocks(const PackedMatrix& w, FloatRows x, int num_rows, int index, int end, Emit emit) {
  simd::Floats out[B * M];
  for (; index + B <= end; index += B)
    for (int row = 0; row < num_rows; row += M) {
      const int count = std::min(M, num_rows - row);
      multiply_rows<B, M>(w, index, x, row, count, out);
      for (int b = 0; b < B; ++b)
        for (int m = 0; m < count; ++m) emit(index + b, row + m, out[b * count + m]);
    }
  return index;
}

// Row blocks [begin, end) for rows [0, num_rows) of activations; `emit(block, row, 16 outputs)`.
template <class Emit>
inline void matmul(const PackedMatrix& w, FloatRows x, int num_rows, int begin, int end, Emit emit) {
  if (num_rows == 1) begin = matmul_blocks<1, 4>(w, x, num_rows, begin, end, emit);
  if (num_rows <= 2) begin = matmul_blocks<2, 2>(w, x, num_rows, begin, end, emit);
  matmul_blocks<kTileRows, 1>(w, x, num_rows, begin, end, emit);
}

// Pairs [begin, end) of row blocks: `emit(pair, row, 16 outputs of the first, 16 of the second)`.
template <class Emit>
inline void matmul_pairs(const PackedMatrix& w, FloatRows x, int num_rows, int begin, int end, Emit emit) {
  simd::Floats out[2 * kTileRows];
  for (int pair = begin; pair < end; ++pair)
    for (int row = 0; row < num_rows; row += kTileRows) {
      const int count = std::min(kTileRows, num_rows - row);
      if (count <= 2) {
        multiply_rows<2, 2>(w, 2 * pair, x, row, count, out);
      } else {
        multiply_rows<1>(w, 2 * pair, x, row, count, out);
        multiply_rows<1>(w, 2 * pair + 1, x, row, count, out + count);
      }
      for (int m = 0; m < count; ++m) emit(pair, row + m, out[m], out[count + m]);
    }
}

}  // namespace bf16
