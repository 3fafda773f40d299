// Most of a head's rows are ruled out as the next token by reading half of their bytes.
//
// With a few directions U [kLead, H] in which hidden states are large, and a scale d [H] for each column,
//
//   w · h  =  (U w) · (U h)  +  ((w − Uᵀ U w) ∘ d) · ((h − Uᵀ U h) / d)        the lead and the rest of the row
//
// The lead is held in 8 bits and the rest in 4, each with one scale a row, and so are the two parts of h in 8 bits. What
// rounding takes off is bounded by Cauchy and Schwarz: |w · h − ŵ · ĥ| <= |w| |h − ĥ| + |w − ŵ| |ĥ| in both parts. So every
// row has an upper bound, and only rows whose bound reaches an exact logit have to be computed exactly. U and d decide
// how many that are, never which token wins.
//
// A block holds 16 rows: for each 32 columns of the lead 8 × 64 bytes, as int8 of packed_matrix.h; for each 32 of the
// rest 4 × 64 bytes, as int4; then 16 half floats each: scale of the lead, scale of the rest (weight = scale × (nibble − 7.5)), norms of
// lead and rest, norm of what rounding took off the rest.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "matmul_quantized.h"

constexpr int kLeadGroups = 2, kLead = kLeadGroups * kGroup;

// Rows of activations in both parts, and how far each is from the row that it stands for.
class ScreenedRows {
 public:
  void reserve(int rows, int cols) {
    lead_.reserve(rows, kLead);
    rest_.reserve(rows, cols);
    if (reach_.size() < size_t(rows)) reach_.resize(rows);
  }

 private:
  friend class HeadScreen;
  struct Reach {
    float lead_scale, rest_scale, middle;  // middle: what 7.5 stands for, times the sum of the rest
    float lead_error, lead_norm, rest_error, rest_norm, slack;
  };
  Activations lead_, rest_;
  std::vector<Reach> reach_;
};

class HeadScreen {
 public:
  // basis: [kLead, H], orthonormal rows; scale: [H], positive; rows from `vocab` on are never tokens
  HeadScreen(const PackedMatrix& head, int vocab, const float* basis, const float* scale)
      : head_(head),
        vocab_(vocab),
        cols_(head.groups() * kGroup),
        basis_(basis, basis + kLead * cols_),
        scale_(scale, scale + cols_),
        inverse_(cols_),
        data_(head.num_blocks() * block_bytes()) {
    for (int at = 0; at < cols_; ++at) inverse_[at] = 1.0f / scale_[at];
  }

  const PackedMatrix& head() const { return head_; }
  int vocab() const { return vocab_; }
  const uint8_t* data() const { return data_.data(); }
  size_t num_bytes() const { return data_.size(); }
  size_t block_bytes() const { return kRestAt + size_t(head_.groups()) * kRestGroup + kNumHalves * 2 * kBlockRows; }

  // Makes row blocks [begin, end); gives the largest norms of a row, which `finish` needs of all blocks.
  struct Norms { float row = 0, scaled = 0; };
  Norms build(int begin, int end) {
    Norms largest;
    std::vector<float> row(cols_);
    for (int at = begin * kBlockRows; at < end * kBlockRows; ++at) {
      head_.dequantize_row(at, row.data());
      largest.row = at_least(largest.row, norm(row.data(), cols_));
      largest.scaled = at_least(largest.scaled, put_row(row.data(), at));
    }
    return largest;
  }
  // False where weights are too large, infinite or no numbers.
  bool finish(const std::vector<Norms>& largest) {
    Norms all;
    for (const Norms& part : largest) {
      all.row = at_least(all.row, part.row);
      all.scaled = at_least(all.scaled, part.scaled);
    }
    largest_norm_ = all.row;
    return all.row < kMostNorm && all.scaled < kMostNorm;
  }

  // h: [H], changed; it becomes row `index` of `rows`
  void put(float* h, ScreenedRows& rows, int index) const;

  // 16 logits as they are about, and at the most.
  struct Bounds { simd::Floats about, most; };

  // For `count` rows from `row` on, the first of a tile; count <= kTileRows.
  template <int M = simd::kTileRows>
  void bounds(int block, const ScreenedRows& rows, int row, int count, Bounds* out) const {
    if constexpr (M > 1) {
      if (count < M) return bounds<M - 1>(block, rows, row, count, out);
    }
    bounds_of<M>(block, rows, row, out);
  }

  // Whether to screen for so many rows. More than a few are bound by computing, of which 8-bit activations need as much
  // here as for all logits. Screening that leaves much of the head to compute costs more than it saves: then it rests.
  bool pays(int num_rows) {
    if (num_rows > kMostRows && !head_.takes_floats()) return false;
    if (rest_steps_ == 0) return true;
    --rest_steps_;
    return false;
  }
  void learn(int64_t num_computed, int64_t num_blocks) {
    share_ += 0.1f * (float(num_computed) / float(num_blocks) - share_);
    if (share_ < kMostShare) return;
    rest_steps_ = kRestSteps;
    share_ = kMostShare / 2;
  }

 private:
  static constexpr size_t kInt8Group = 8 * 64, kRestAt = kLeadGroups * kInt8Group, kRestGroup = 4 * 64;
  static constexpr int kNumHalves = 5, kRestSteps = 128, kMostRows = 2;
  static constexpr float kMostShare = 0.35f;
  static constexpr float kMiddle = 7.5f;
  static constexpr float kMostNorm = 3e4f;        // a half float takes it, with its margin
  static constexpr float kRounding = 1e-4f;       // of what the parts are multiplied and added up with, at the most
  static constexpr float kMargin = 1.0f + 1e-3f;  // above the rounding of norms, which have up to some thousand terms

  static float dot(const float* a, const float* b, int count) {
    simd::Floats sum = simd::splat(0);
    for (int at = 0; at < count; at += 16) sum = simd::fma(simd::load(a + at), simd::load(b + at), sum);
    return simd::sum(sum);
  }
  static float norm(const float* a, int count) { return std::sqrt(dot(a, a, count)); }
  static float largest(const float* a, int count) {
    simd::Floats most = simd::splat(0);
    for (int at = 0; at < count; at += 16) most = simd::max(most, simd::abs(simd::load(a + at)));
    return simd::largest(most);
  }

  // x becomes what the directions leave of it
  void split(float* x, float* lead) const {
    for (int k = 0; k < kLead; ++k) lead[k] = dot(&basis_[k * cols_], x, cols_);
    for (int k = 0; k < kLead; ++k) {
      const simd::Floats minus = simd::splat(-lead[k]);
      for (int at = 0; at < cols_; at += 16)
        simd::store(x + at, simd::fma(minus, simd::load(&basis_[k * cols_ + at]), simd::load(x + at)));
    }
  }

  static void multiply(float* x, const std::vector<float>& by) {
    for (size_t at = 0; at < by.size(); at += 16) simd::store(x + at, simd::load(x + at) * simd::load(&by[at]));
  }

  // The larger, and a value that is no number once there is one.
  static float at_least(float a, float b) { return b <= a ? a : a != a ? a : b; }

  // w: [H], changed; gives the norm of its scaled rest
  float put_row(float* w, int row);
  static float rest_scale(const float* w, int count);
  static float rest_error(const float* w, int count, float scale, float inverse);
  static simd::Floats nibbles(simd::Floats w, simd::Floats inverse) {
    const simd::Floats shifted = simd::round(simd::fma(w, inverse, simd::splat(kMiddle)));
    return simd::max(simd::splat(0), simd::min(simd::splat(15), shifted));
  }

  // x: [groups × 32] in 8 bits with one scale for all; gives the scale, and the norm of what rounding took off
  static float quantize(const float* x, Activations& out, int row, float* error, int64_t* total);

  template <int M>
  [[gnu::noinline]] void bounds_of(int block, const ScreenedRows& rows, int row, Bounds* out) const;

  const PackedMatrix& head_;
  const int vocab_, cols_;
  const std::vector<float> basis_, scale_;
  std::vector<float> inverse_;
  float largest_norm_ = 0;
  Piece data_;
  int rest_steps_ = 0;
  float share_ = 0;
};

inline uint16_t half_up(float x) { return _cvtss_sh(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

inline float HeadScreen::put_row(float* w, int row) {
  uint8_t* block = data_.data() + size_t(row / kBlockRows) * block_bytes();
  const int r = row % kBlockRows;
  float lead[kLead];
  split(w, lead);
  multiply(w, scale_);
  const uint16_t lead_half = half_up(largest(lead, kLead) / 127.0f);
  const float lead_scale = _cvtsh_ss(lead_half), lead_inverse = lead_scale > 0 ? 1.0f / lead_scale : 0.0f;
  for (int col = 0; col < kLead; ++col) {
    const float rounded = std::nearbyint(lead[col] * lead_inverse);
    block[col / 4 * 64 + 4 * r + col % 4] = uint8_t(int8_t(std::max(-127.0f, std::min(127.0f, rounded))));
  }
  const uint16_t rest_half = half_up(rest_scale(w, cols_));
  const float scale = _cvtsh_ss(rest_half), inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int at = 0; at < cols_; at += 16) {
    float quants[16];
    simd::store(quants, nibbles(simd::load(w + at), simd::splat(inverse)));
    uint8_t* group = block + kRestAt + at / kGroup * kRestGroup;
    for (int i = 0; i < 16; ++i) {
      const int col = at % kGroup + i;
      group[col / 8 * 64 + 4 * r + col % 4] |= uint8_t(int(quants[i]) << (col % 8 < 4 ? 0 : 4));
    }
  }
  const uint16_t halves[kNumHalves] = {lead_half, rest_half, half_up(kMargin * norm(lead, kLead)),
                                       half_up(kMargin * norm(w, cols_)),
                                       half_up(kMargin * rest_error(w, cols_, scale, inverse))};
  uint8_t* at = block + kRestAt + size_t(head_.groups()) * kRestGroup + 2 * r;
  for (int i = 0; i < kNumHalves; ++i) std::memcpy(at + 2 * kBlockRows * i, &halves[i], 2);
  return norm(w, cols_);
}

// Of scales between the best for normally distributed weights and one that cuts nothing off, the best.
inline float HeadScreen::rest_scale(const float* w, int count) {
  const float deviation = norm(w, count) / std::sqrt(float(count)), widest = largest(w, count) / kMiddle;
  float best = widest, best_error = std::numeric_limits<float>::infinity();
  for (const float candidate : {0.30f * deviation, 0.34f * deviation, 0.38f * deviation, 0.43f * deviation, widest}) {
    if (candidate <= 0 || candidate > widest) continue;
    const float error = rest_error(w, count, candidate, 1.0f / candidate);
    if (error < best_error) best = candidate, best_error = error;
  }
  return best;
}

// The norm of what rounding takes off.
inline float HeadScreen::rest_error(const float* w, int count, float scale, float inverse) {
  simd::Floats sum = simd::splat(0);
  for (int at = 0; at < count; at += 16) {
    const simd::Floats values = simd::load(w + at);
    const simd::Floats kept = (nibbles(values, simd::splat(inverse)) - simd::splat(kMiddle)) * simd::splat(scale);
    sum = simd::fma(values - kept, values - kept, sum);
  }
  return std::sqrt(simd::sum(sum));
}

inline float HeadScreen::quantize(const float* x, Activations& out, int row, float* error, int64_t* total) {
  const int count = out.groups * kGroup;
  const float most = largest(x, count), scale = most / 127.0f;
  const simd::Floats inverse = simd::splat(most > 0 ? 127.0f / most : 0.0f);
  simd::Floats errors = simd::splat(0);
  *total = 0;
  for (int group = 0; group < out.groups; ++group, x += kGroup) {
    int8_t values[kGroup];
    simd::Ints sum = simd::to_ints(simd::splat(0));
    for (int i = 0; i < kGroup; i += 16) {
      const simd::Floats given = simd::load(x + i);
      const simd::Ints rounded = simd::to_ints(given * inverse);
      const simd::Floats left = given - simd::to_floats(rounded) * simd::splat(scale);
      errors = simd::fma(left, left, errors);
      sum = sum + rounded;
      simd::store_bytes(values + i, rounded);
    }
    for (int i = 0; i < kQuads; ++i) std::memcpy(out.quad(row, group, i), values + 4 * i, 4);
    out.totals[out.at(row, group)] = simd::sum(sum);
    *total += simd::sum(sum);
  }
  *error = std::sqrt(simd::sum(errors));
  return scale;
}

inline void HeadScreen::put(float* h, ScreenedRows& rows, int index) const {
  ScreenedRows::Reach& reach = rows.reach_[index];
  const float whole = norm(h, cols_);
  float lead[kLead];
  split(h, lead);
  multiply(h, inverse_);
  int64_t total = 0;
  reach.lead_scale = quantize(lead, rows.lead_, index, &reach.lead_error, &total);
  reach.lead_norm = norm(lead, kLead) + reach.lead_error;
  reach.rest_scale = quantize(h, rows.rest_, index, &reach.rest_error, &total);
  reach.rest_norm = norm(h, cols_) + reach.rest_error;
  reach.lead_error += kRounding * reach.lead_norm;
  reach.rest_error += kRounding * reach.rest_norm;
  reach.middle = reach.rest_scale * kMiddle * float(total);
  // What rounding to float can do to a logit, here and where it is computed exactly: well below this.
  reach.slack = (2e-4f + 4e-7f * float(cols_)) * whole * largest_norm_;
  const float all = reach.lead_norm + reach.rest_norm + reach.slack;
  if (!std::isfinite(all)) reach = {0, 0, 0, 0, 0, 0, 0, std::numeric_limits<float>::infinity()};  // rules out nothing
}

template <int M>
void HeadScreen::bounds_of(int block, const ScreenedRows& rows, int row, Bounds* out) const {
  const uint8_t* from = data_.data() + size_t(block) * block_bytes();
  TileReader lead(rows.lead_, row), rest(rows.rest_, row);
  simd::Ints lead_sums[M], sums[M];
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) lead_sums[m] = sums[m] = simd::to_ints(simd::splat(0));
  for (int group = 0; group < kLeadGroups; ++group, from += kInt8Group, lead.next()) {
    prefetch_ahead(from, kInt8Group);
    simd::ByteDots<M> dots;
#pragma GCC unroll 8
    for (int z = 0; z < kQuads; ++z) dots.add(simd::load_bytes(from + 64 * z), lead.quads(z));
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) lead_sums[m] = lead_sums[m] + dots.sum(m, lead.totals[m]);
  }
  for (int group = 0; group < head_.groups(); ++group, from += kRestGroup, rest.next()) {
    prefetch_ahead(from, kRestGroup);
    simd::NibbleDots<M> dots;
#pragma GCC unroll 4
    for (int z = 0; z < 4; ++z) {
      simd::Nibbles low, high;
      simd::load_nibbles(from + 64 * z, low, high);
      dots.add(low, rest.quads(2 * z));
      dots.add(high, rest.quads(2 * z + 1));
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) sums[m] = sums[m] + dots.sum(m);
  }
  const auto halves = [&](int index) { return simd::load_half((const uint16_t*)from + index * kBlockRows); };
  const simd::Floats lead_scale = halves(0), rest_scale = halves(1);
  const simd::Floats lead_norm = halves(2), rest_norm = halves(3), rest_error = halves(4);
  // Rounding takes at most half a scale off each column of the lead.
  const simd::Floats lead_error = lead_scale * simd::splat(0.5f * std::sqrt(float(kLead)) * kMargin);
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    const ScreenedRows::Reach& reach = rows.reach_[row + m];
    const simd::Floats lead_sum = simd::to_floats(lead_sums[m]) * simd::splat(reach.lead_scale);
    const simd::Floats rest_sum = simd::to_floats(sums[m]) * simd::splat(reach.rest_scale) - simd::splat(reach.middle);
    out[m].about = simd::fma(lead_scale, lead_sum, rest_scale * rest_sum);
    simd::Floats error = simd::splat(reach.slack);
    error = simd::fma(lead_norm, simd::splat(reach.lead_error), error);
    error = simd::fma(lead_error, simd::splat(reach.lead_norm), error);
    error = simd::fma(rest_norm, simd::splat(reach.rest_error), error);
    error = simd::fma(rest_error, simd::splat(reach.rest_norm), error);
    out[m].most = out[m].about + error;
  }
}
