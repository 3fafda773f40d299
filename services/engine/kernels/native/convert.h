// Rows of weights from one storage format to another, in GGUF's block layouts; and the quantizers.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "kv_pages.h"
#include "packed_matrix.h"

// Formats that are only read.
constexpr int32_t kFloat16 = 4, kFloat32 = 5;

inline size_t group_bytes(int32_t format) {
  constexpr size_t kBytes[] = {18, 20, 34, 2 * kGroup, 2 * kGroup, 4 * kGroup};
  return kBytes[format];
}

inline void put_half(uint8_t* to, float value) {
  const uint16_t half = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(to, &half, 2);
}

// A group of 32 as floats.
inline void read_group(int32_t format, const uint8_t* from, float* out) {
  if (format == kFloat32) {
    std::memcpy(out, from, 4 * kGroup);
  } else if (format == kFloat16) {
    for (int i = 0; i < kGroup; ++i) out[i] = half_at(from, i);
  } else if (Format(format) == Format::kBf16) {
    for (int i = 0; i < kGroup; ++i) out[i] = bf16_at(from + 2 * i);
  } else if (Format(format) == Format::kQ8_0) {
    for (int i = 0; i < kGroup; ++i) out[i] = half_at(from, 0) * float(int8_t(from[2 + i]));
  } else {
    const bool symmetric = Format(format) == Format::kQ4_0;
    const float scale = half_at(from, 0), minimum = symmetric ? -8.0f * scale : half_at(from, 1);
    const uint8_t* quants = from + (symmetric ? 2 : 4);
    for (int i = 0; i < kGroup / 2; ++i) {
      out[i] = scale * float(quants[i] & 15) + minimum;
      out[i + kGroup / 2] = scale * float(quants[i] >> 4) + minimum;
    }
  }
}

inline void write_bf16(const float* x, uint8_t* to) {
  for (int i = 0; i < kGroup; ++i) {
    const uint16_t bits = to_bf16(x[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

// The scale is rounded first, so that the quants fit the scale that is stored.
inline void write_int8(const float* x, uint8_t* to) {
  float largest = 0;
  for (int i = 0; i < kGroup; ++i) largest = std::max(largest, std::fabs(x[i]));
  put_half(to, largest / 127.0f);
  const float scale = half_at(to, 0), inverse = scale > 0 ? 1.0f / scale : 0.0f;
  for (int i = 0; i < kGroup; ++i)
    to[2 + i] = uint8_t(int8_t(std::lrint(std::clamp(x[i] * inverse, -127.0f, 127.0f))));
}

// weight = scale × quant + minimum, quants 0 to 15.
struct Line { float scale, minimum; };

inline simd::Floats quants_of(simd::Floats x, float inverse, float minimum) {
  const simd::Floats q = simd::round((x - simd::splat(minimum)) * simd::splat(inverse));
  return simd::min(simd::max(q, simd::splat(0.0f)), simd::splat(15.0f));
}

// The line through the group that leaves the least squared error, among those that cut off more or less of its range:
// for each candidate the quants are fixed and the line is fitted to them.
inline Line fitted_line(const float* x) {
  const simd::Floats a = simd::load(x), b = simd::load(x + 16);
  const auto [low, high] = std::minmax_element(x, x + kGroup);
  const float minimum = *low, range = *high - *low;
  if (!(range > 0)) return {0.0f, minimum};
  const float sum_x = simd::sum(a + b), n = float(kGroup);
  Line best{range / 15.0f, minimum};
  float least = std::numeric_limits<float>::infinity();
  for (int step = 0; step <= 20; ++step) {
    const float inverse = (14.0f + 0.1f * float(step)) / range;
    const simd::Floats qa = quants_of(a, inverse, minimum), qb = quants_of(b, inverse, minimum);
    const float sum_q = simd::sum(qa + qb), sum_qq = simd::sum(simd::fma(qa, qa, qb * qb));
    const float sum_qx = simd::sum(simd::fma(qa, a, qb * b)), determinant = n * sum_qq - sum_q * sum_q;
    if (!(determinant > 0)) continue;
    const Line line{(n * sum_qx - sum_q * sum_x) / determinant, (sum_qq * sum_x - sum_q * sum_qx) / determinant};
    const simd::Floats scale = simd::splat(line.scale), shift = simd::splat(line.minimum);
    const simd::Floats ea = simd::fma(scale, qa, shift) - a, eb = simd::fma(scale, qb, shift) - b;
    const float error = simd::sum(simd::fma(ea, ea, eb * eb));
    if (error < least) least = error, best = line;
  }
  return best;
}

inline void write_int4(const float* x, uint8_t* to) {
  const Line line = fitted_line(x);
  put_half(to, line.scale);
  put_half(to + 2, line.minimum);
  const float scale = half_at(to, 0), minimum = half_at(to, 1), inverse = scale > 0 ? 1.0f / scale : 0.0f;
  float quants[kGroup];
  for (int i = 0; i < kGroup; i += 16) simd::store(quants + i, quants_of(simd::load(x + i), inverse, minimum));
  for (int i = 0; i < kGroup / 2; ++i) to[4 + i] = uint8_t(int(quants[i]) | int(quants[i + kGroup / 2]) << 4);
}

// Exact: a symmetric scale is a line whose minimum is −8 scales.
inline void symmetric_as_int4(const uint8_t* from, uint8_t* to) {
  std::memcpy(to, from, 2);
  put_half(to + 2, -8.0f * half_at(from, 0));
  std::memcpy(to + 4, from + 2, 16);
}

// to: kQ4_1, kQ8_0 or kBf16
inline void convert(int32_t from, Format to, const uint8_t* raw, size_t num_groups, uint8_t* out) {
  float group[kGroup];
  for (size_t i = 0; i < num_groups; ++i, raw += group_bytes(from), out += group_bytes(int32_t(to))) {
    if (Format(from) == Format::kQ4_0 && to == Format::kQ4_1) {
      symmetric_as_int4(raw, out);
      continue;
    }
    read_group(from, raw, group);
    if (to == Format::kBf16) write_bf16(group, out);
    else if (to == Format::kQ8_0) write_int8(group, out);
    else write_int4(group, out);
  }
}
