// Quantized weights × quantized activations.
//
// Within a group of 32 the products are summed exactly in integers; across groups in float, in the order of the groups.
// So a row's result does not depend on which rows are computed beside it (batch invariance).
#pragma once
#include <algorithm>

#include "activations.h"

// Far enough ahead that memory answers in time when a single row reads the weights once.
constexpr size_t kPrefetchBytes = 3072;

inline void prefetch_ahead(const uint8_t* block, size_t num_bytes) {
  for (size_t at = 0; at < num_bytes; at += 64) simd::prefetch(block + kPrefetchBytes + at);
}

// 16 outputs for each of M rows of activations from `row` on.
template <int M>
inline void multiply_int4(const PackedMatrix& w, int index, const Activations& x, int row, simd::Floats* out) {
  for (int m = 0; m < M; ++m) out[m] = simd::splat(0);
  const uint8_t* block = w.block(index, 0);
  for (int group = 0; group < w.groups(); ++group, block += PackedMatrix::kInt4Block) {
    prefetch_ahead(block, PackedMatrix::kInt4Block);
    simd::NibbleDot dots[M];
    const int8_t* values = x.values.data() + (size_t(row) * x.groups + group) * kGroup;
#pragma GCC unroll 4
    for (int z = 0; z < 4; ++z) {
      simd::Nibbles low, high;
      simd::load_nibbles(block + 64 * z, low, high);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) dots[m].add(low, values + size_t(m) * x.groups * kGroup + 8 * z);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) dots[m].add(high, values + size_t(m) * x.groups * kGroup + 8 * z + 4);
    }
    const simd::Floats scale = simd::load_half((const uint16_t*)(block + 256));
    const simd::Floats minimum = simd::load_half((const uint16_t*)(block + 288));
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const size_t at = size_t(row + m) * x.groups + group;
      out[m] = simd::fma(dots[m].total(), scale * simd::splat(x.scales[at]), out[m]);
      out[m] = simd::fma(minimum, simd::splat(x.sums[at]), out[m]);
    }
  }
}

template <int M>
inline void multiply_int8(const PackedMatrix& w, int index, const Activations& x, int row, simd::Floats* out) {
  for (int m = 0; m < M; ++m) out[m] = simd::splat(0);
  const uint8_t* block = w.block(index, 0);
  for (int group = 0; group < w.groups(); ++group, block += PackedMatrix::kInt8Block) {
    prefetch_ahead(block, PackedMatrix::kInt8Block);
    simd::ByteDot dots[M];
    const int8_t* values = x.values.data() + (size_t(row) * x.groups + group) * kGroup;
#pragma GCC unroll 8
    for (int z = 0; z < 8; ++z) {
      const simd::Bytes weights = simd::load_bytes(block + 64 * z);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) dots[m].add(weights, values + size_t(m) * x.groups * kGroup + 4 * z);
    }
    const simd::Floats scale = simd::load_half((const uint16_t*)(block + 512));
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const size_t at = size_t(row + m) * x.groups + group;
      out[m] = simd::fma(dots[m].total(x.totals[at]), scale * simd::splat(x.scales[at]), out[m]);
    }
  }
}

template <int M>
inline void multiply(const PackedMatrix& w, int index, const Activations& x, int row, simd::Floats* out) {
  w.is_int4() ? multiply_int4<M>(w, index, x, row, out) : multiply_int8<M>(w, index, x, row, out);
}

// The same for a number of rows known at run time, at most kTileRows.
template <int M = simd::kTileRows>
inline void multiply_rows(const PackedMatrix& w, int index, const Activations& x, int row, int count, simd::Floats* out) {
  if constexpr (M == 1) {
    multiply<1>(w, index, x, row, out);
  } else {
    count == M ? multiply<M>(w, index, x, row, out) : multiply_rows<M - 1>(w, index, x, row, count, out);
  }
}

// Row blocks [begin, end) for rows [0, num_rows) of activations; `emit(block, row, 16 outputs)`.
template <class Emit>
inline void matmul(const PackedMatrix& w, const Activations& x, int num_rows, int begin, int end, Emit emit) {
  simd::Floats out[simd::kTileRows];
  for (int index = begin; index < end; ++index)
    for (int row = 0; row < num_rows; row += simd::kTileRows) {
      const int count = std::min(simd::kTileRows, num_rows - row);
      multiply_rows(w, index, x, row, count, out);
      for (int m = 0; m < count; ++m) emit(index, row + m, out[m]);
    }
}
