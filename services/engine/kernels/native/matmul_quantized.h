// The innermost loops: one row block of quantized weights × up to kTileRows rows of quantized activations.
//
// Products are summed exactly in integers within a group of 32, and the groups are added up in float in their order, so a
// row gets the same bits from packed weights, from a panel, and beside any other rows.
//
// Not inlined: each loop has to keep its sums in registers, whatever it is called from.
#pragma once
#include "activations.h"
#include "panel.h"

// Weights that are read once in a step come from memory: they are asked for long before, and once more when they are
// about to be wanted in the first-level cache.
constexpr size_t kFarBytes = 16384, kPrefetchBytes = 3072;

inline void prefetch_ahead(const uint8_t* block, size_t num_bytes) {
  for (size_t at = 0; at < num_bytes; at += 64) {
    simd::prefetch_far(block + kFarBytes + at);
    simd::prefetch(block + kPrefetchBytes + at);
  }
}

// Weights that are wanted next are asked for a few lines at a time while others are multiplied: those behind them, where
// they are read at the speed of memory;
struct Stream {
  const uint8_t* at;
  size_t num_bytes;  // for each group

  void next() {
    prefetch_ahead(at, num_bytes);
    at += num_bytes;
  }
};

// or a part of other ones.
struct Slice {
  const uint8_t* at;
  size_t num_bytes;

  void next() {
    for (size_t line = 0; line < num_bytes; line += 64) simd::prefetch(at + line);
    at += num_bytes;
  }
};

// A tile of activations, read group by group.
struct TileReader {
  const int8_t* values;
  const float *scales, *sums;
  const int32_t* totals;

  // row: the first of a tile, or any other to read that one alone
  TileReader(const Activations& x, int row)
      : values(x.values.data() + 4 * first(x, row, kGroup / 4)),
        scales(x.scales.data() + first(x, row, 1)),
        sums(x.sums.data() + first(x, row, 1)),
        totals(x.totals.data() + first(x, row, 1)) {}

  // Where a row begins in an array with `count` elements for each group and row.
  static size_t first(const Activations& x, int row, int count) {
    const int in_tile = row % simd::kTileRows;
    return size_t(row - in_tile) * x.groups * count + in_tile;
  }

  // Columns 4z to 4z + 3 of all rows.
  const int8_t* quads(int z) const { return values + z * simd::kTileRows * 4; }

  void next() {
    values += simd::kTileRows * kGroup;
    scales += simd::kTileRows;
    sums += simd::kTileRows;
    totals += simd::kTileRows;
  }
};

// out += scale × dot products + minimum × sum of activations
template <int M>
inline void add_group(const simd::NibbleDots<M>& dots, simd::Floats scale, simd::Floats minimum, const TileReader& x,
                      simd::Floats* out) {
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    out[m] = simd::fma(simd::to_floats(dots.sum(m)), scale * simd::splat(x.scales[m]), out[m]);
    out[m] = simd::fma(minimum, simd::splat(x.sums[m]), out[m]);
  }
}

template <int M, class Ahead>
[[gnu::noinline]] void multiply_int4(const PackedMatrix& w, int index, const Activations& x, int row, Ahead ahead,
                                     simd::Floats* result) {
  simd::Floats out[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) out[m] = simd::splat(0);
  const uint8_t* block = w.block(index, 0);
  TileReader tile(x, row);
  for (int group = 0; group < w.groups(); ++group, block += PackedMatrix::kInt4Block, tile.next()) {
    ahead.next();
    simd::NibbleDots<M> dots;
#pragma GCC unroll 4
    for (int z = 0; z < 4; ++z) {
      simd::Nibbles low, high;
      simd::load_nibbles(block + 64 * z, low, high);
      dots.add(low, tile.quads(2 * z));
      dots.add(high, tile.quads(2 * z + 1));
    }
    const auto* halves = (const uint16_t*)(block + 256);
    add_group<M>(dots, simd::load_half(halves), simd::load_half(halves + kBlockRows), tile, out);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) result[m] = out[m];
}

template <int M>
[[gnu::noinline]] void multiply_int4(const Panel& panel, const Activations& x, int row, Slice ahead,
                                     simd::Floats* result) {
  simd::Floats out[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) out[m] = simd::splat(0);
  const uint8_t* bytes = panel.group(0);
  TileReader tile(x, row);
  for (int group = 0; group < x.groups; ++group, bytes += Panel::kGroupBytes, tile.next()) {
    ahead.next();
    simd::NibbleDots<M> dots;
#pragma GCC unroll 8
    for (int z = 0; z < kQuads; ++z) dots.add(simd::load_unpacked(bytes + 64 * z), tile.quads(z));
    const auto* scales = (const float*)(bytes + Panel::kScalesAt);
    add_group<M>(dots, simd::load(scales), simd::load(scales + kBlockRows), tile, out);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) result[m] = out[m];
}

template <int M, class Ahead>
[[gnu::noinline]] void multiply_int8(const PackedMatrix& w, int index, const Activations& x, int row, Ahead ahead,
                                     simd::Floats* result) {
  simd::Floats out[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) out[m] = simd::splat(0);
  const uint8_t* block = w.block(index, 0);
  TileReader tile(x, row);
  for (int group = 0; group < w.groups(); ++group, block += PackedMatrix::kInt8Block, tile.next()) {
    ahead.next();
    simd::ByteDots<M> dots;
#pragma GCC unroll 8
    for (int z = 0; z < kQuads; ++z) dots.add(simd::load_bytes(block + 64 * z), tile.quads(z));
    const simd::Floats scale = simd::load_half((const uint16_t*)(block + 512));
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m)
      out[m] = simd::fma(simd::to_floats(dots.sum(m, tile.totals[m])), scale * simd::splat(tile.scales[m]), out[m]);
  }
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) result[m] = out[m];
}
