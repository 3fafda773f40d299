// Quantized weights × quantized activations.
//
// Within a group of 32 the products are summed exactly in integers; across groups in float, in the order of the groups.
// So a row's result does not depend on which rows are computed beside it (batch invariance).
#pragma once
#include <algorithm>

#include "matmul_quantized.h"

// Row block `index` for `count` rows of activations from `row` on, the first of a tile; count ≤ kTileRows. `panel` is the
// unpacked block, or null.
template <int M = simd::kTileRows>
inline void multiply_tile(const PackedMatrix& w, int index, const Panel* panel, const Activations& x, int row, int count,
                          simd::Floats* out) {
  if constexpr (M > 1) {
    if (count < M) return multiply_tile<M - 1>(w, index, panel, x, row, count, out);
  }
  if (panel != nullptr) multiply_int4<M>(*panel, x, row, out);
  else if (w.is_int4()) multiply_int4<M>(w, index, x, row, out);
  else multiply_int8<M>(w, index, x, row, out);
}

// Blocks [kBlocks × begin, kBlocks × end) for rows [0, num_rows) of activations; a step takes kBlocks of them:
// `emit(step, row, out)` with 16 outputs of each, out[0] to out[kBlocks - 1].
template <int kBlocks, class Emit>
inline void matmul(const PackedMatrix& w, const Activations& x, int num_rows, int begin, int end, Panel* panels, Emit emit) {
  constexpr int kTile = simd::kTileRows;
  const bool unpacks = num_rows > kTile && w.is_int4();
  simd::Floats out[kBlocks][kTile], sixteen[kBlocks];
  for (int step = begin; step < end; ++step) {
    if (unpacks)
      for (int b = 0; b < kBlocks; ++b) panels[b].unpack(w, kBlocks * step + b);
    for (int row = 0; row < num_rows; row += kTile) {
      const int count = std::min(kTile, num_rows - row);
      for (int b = 0; b < kBlocks; ++b)
        multiply_tile(w, kBlocks * step + b, unpacks ? panels + b : nullptr, x, row, count, out[b]);
      for (int m = 0; m < count; ++m) {
        for (int b = 0; b < kBlocks; ++b) sixteen[b] = out[b][m];
        emit(step, row + m, sixteen);
      }
    }
  }
}
