// Rows of activations, in 8 bits with one scale for each group of 32 or in float; and the norm that precedes them.
//
// 8-bit rows lie in tiles of kTileRows that a matmul reads together: of each four columns, first those of the tile's first row,
// then those of its second, and so on. One pointer walks through a whole tile.
#pragma once
#include <cmath>

#include "packed_matrix.h"

constexpr int kQuads = kGroup / 4;  // four columns at a time

// Rows that are not quantized.
struct FloatRows {
  const float* data = nullptr;
  size_t stride = 0;
  const float* row(int index) const { return data + index * stride; }
};

struct Activations {
  int groups = 0;
  Buffer<int8_t> values;   // [tiles, groups, kQuads, kTileRows, 4]
  Buffer<float> scales;    // [tiles, groups, kTileRows]
  Buffer<int32_t> totals;  // [tiles, groups, kTileRows]: sum of the values
  Buffer<float> sums;      // [tiles, groups, kTileRows]: scale × total, what a weight's minimum is multiplied by
  FloatRows floats;        // the rows as they are, for weights that take floats

  void reserve(int rows, int cols) {
    groups = cols / kGroup;
    const size_t count = size_t(rows + simd::kTileRows - 1) / simd::kTileRows * simd::kTileRows * groups;
    values.reserve(count * kGroup);
    scales.reserve(count);
    totals.reserve(count);
    sums.reserve(count);
  }

  // Where a group of a row has its scale, total and sum.
  size_t at(int row, int group) const {
    return (size_t(row / simd::kTileRows) * groups + group) * simd::kTileRows + row % simd::kTileRows;
  }
  // One row as the floats that its values stand for.
  void dequantize_row(int row, float* out) {
    for (int group = 0; group < groups; ++group)
      for (int i = 0; i < kQuads; ++i)
        for (int j = 0; j < 4; ++j) *out++ = scales[at(row, group)] * float(quad(row, group, i)[j]);
  }
  int8_t* quad(int row, int group, int index) {
    const size_t tile_group = size_t(row / simd::kTileRows) * groups + group;
    return values.data() + ((tile_group * kQuads + index) * simd::kTileRows + row % simd::kTileRows) * 4;
  }
};

// value = x × 127 / max|x| of its group, rounded to nearest
inline void quantize_group(const float* x, Activations& out, int row, int group) {
  const simd::Floats a = simd::load(x), b = simd::load(x + 16);
  const float largest = simd::largest(simd::max(simd::abs(a), simd::abs(b)));
  const simd::Floats inverse = simd::splat(largest > 0 ? 127.0f / largest : 0.0f);
  const simd::Ints low = simd::to_ints(a * inverse), high = simd::to_ints(b * inverse);
  int8_t values[kGroup];
  simd::store_bytes(values, low);
  simd::store_bytes(values + 16, high);
  for (int i = 0; i < kQuads; ++i) std::memcpy(out.quad(row, group, i), values + 4 * i, 4);
  const size_t at = out.at(row, group);
  out.scales[at] = largest / 127.0f;
  out.totals[at] = simd::sum(low + high);
  out.sums[at] = out.scales[at] * float(out.totals[at]);
}

inline void quantize_row(const float* x, Activations& out, int row) {
  for (int group = 0; group < out.groups; ++group) quantize_group(x + group * kGroup, out, row, group);
}

// 1 / sqrt(mean square + eps)
inline float inverse_rms(const float* x, int size, float eps) {
  simd::Floats squares = simd::splat(0);
  for (int i = 0; i < size; i += 16) squares = simd::fma(simd::load(x + i), simd::load(x + i), squares);
  return 1.0f / std::sqrt(simd::sum(squares) / float(size) + eps);
}

// RMS norm and quantization in one pass over the row.
inline void norm_quantize_row(const float* x, const float* weight, float eps, Activations& out, int row) {
  const int size = out.groups * kGroup;
  const simd::Floats inverse = simd::splat(inverse_rms(x, size, eps));
  float normed[kGroup];
  for (int group = 0; group < out.groups; ++group) {
    for (int i = 0; i < kGroup; i += 16) {
      const int at = group * kGroup + i;
      simd::store(normed + i, simd::load(x + at) * inverse * simd::load(weight + at));
    }
    quantize_group(normed, out, row, group);
  }
}

// The same without quantization.
inline void norm_row(const float* x, const float* weight, float eps, int size, float* out) {
  const simd::Floats inverse = simd::splat(inverse_rms(x, size, eps));
  for (int i = 0; i < size; i += 16) simd::store(out + i, simd::load(x + i) * inverse * simd::load(weight + i));
}
