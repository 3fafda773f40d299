// Sixteen lanes as two AVX2 registers each: lanes 0-7 in `lo`, 8-15 in `hi`.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace simd {

constexpr int kTileRows = 4;  // rows of activations that share one load of weights

struct Floats { __m256 lo, hi; };
struct Ints { __m256i lo, hi; };

inline Floats splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Floats a) { _mm256_storeu_ps(p, a.lo); _mm256_storeu_ps(p + 8, a.hi); }
inline Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }

// a * b + c, rounded once
inline Floats fma(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

inline Floats abs(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}

inline Floats round(Floats a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kNearest), _mm256_round_ps(a.hi, kNearest)};
}

inline Ints to_ints(Floats a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
inline Floats to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline Ints operator+(Ints a, Ints b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }

// 2 to the power of `n`, a whole number in [-126, 127]
inline Floats power_of_two(Floats n) {
  const Ints exponent = to_ints(n) + Ints{_mm256_set1_epi32(127), _mm256_set1_epi32(127)};
  return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent.lo, 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(exponent.hi, 23))};
}

inline float largest(Floats a) {
  __m256 pairs = _mm256_max_ps(a.lo, a.hi);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

inline float sum(Floats a) {
  __m256 pairs = _mm256_add_ps(a.lo, a.hi);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}

inline int32_t sum(Ints a) {
  __m256i pairs = _mm256_add_epi32(a.lo, a.hi);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

// `a` in lanes whose number is below `limit`, `b` in the rest.
inline Floats choose_below(int limit, Floats a, Floats b) {
  const __m256i limits = _mm256_set1_epi32(limit);
  const __m256i first = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i second = _mm256_add_epi32(first, _mm256_set1_epi32(8));
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(_mm256_cmpgt_epi32(limits, first))),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(_mm256_cmpgt_epi32(limits, second)))};
}

// Lanes below `count` of `a`, `otherwise` in the rest.
inline Floats keep_below(Floats a, int count, float otherwise) { return choose_below(count, a, splat(otherwise)); }

// Lanes from `first` on of `a`, `otherwise` in those before.
inline Floats keep_from(Floats a, int first, float otherwise) { return choose_below(first, splat(otherwise), a); }

// Lanes of `a` whose bits are set, `otherwise` in the rest.
inline Floats keep_bits(Floats a, uint32_t bits, float otherwise) {
  const __m256i all = _mm256_set1_epi32(int32_t(bits));
  const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), high = _mm256_slli_epi32(low, 8);
  const auto kept = [&](__m256 lanes, __m256i own) {
    const __m256i is_set = _mm256_cmpeq_epi32(_mm256_and_si256(all, own), own);
    return _mm256_blendv_ps(_mm256_set1_ps(otherwise), lanes, _mm256_castsi256_ps(is_set));
  };
  return {kept(a.lo, low), kept(a.hi, high)};
}

inline Floats load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}

inline Floats load_bf16(const uint16_t* p) {
  const auto widen = [](const uint16_t* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  };
  return {widen(p), widen(p + 8)};
}

// To the nearest, ties to even; of finite values.
inline void store_bf16(uint16_t* p, Floats a) {
  const auto rounded = [](__m256 x) {
    const __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)), 16);
  };
  const __m256i words = _mm256_packus_epi32(rounded(a.lo), rounded(a.hi));
  _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(words, 0xd8));
}

inline Floats load_int8(const int8_t* p) {
  return to_floats({_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)),
                    _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8)))});
}

// Of 16 pairs of bfloat16 the first of each, or the second.
inline Floats load_bf16_first(const uint8_t* p) {
  const __m256i lo = _mm256_loadu_si256((const __m256i*)p), hi = _mm256_loadu_si256((const __m256i*)(p + 32));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}

inline Floats load_bf16_second(const uint8_t* p) {
  const __m256i lo = _mm256_loadu_si256((const __m256i*)p), hi = _mm256_loadu_si256((const __m256i*)(p + 32));
  const __m256i high = _mm256_set1_epi32(int32_t(0xffff0000));
  return {_mm256_castsi256_ps(_mm256_and_si256(lo, high)), _mm256_castsi256_ps(_mm256_and_si256(hi, high))};
}

// Sixteen words of 32 bits, for what lies in parts of them.
inline Ints load_words(const uint8_t* p) {
  return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 32))};
}

// Four bits of each word, from `kShift` on: 0..15.
template <int kShift>
inline Floats nibbles_at(Ints words) {
  const __m256i mask = _mm256_set1_epi32(15);
  return to_floats({_mm256_and_si256(_mm256_srli_epi32(words.lo, kShift), mask),
                    _mm256_and_si256(_mm256_srli_epi32(words.hi, kShift), mask)});
}

// Four bits of each of sixteen words, from `kShift` on, where they lie: 0..15 times 2^kShift; from 28 on without the factor.
template <int kShift>
inline Floats nibbles_in_place(const uint8_t* p) {
  const Ints words = load_words(p);
  if (kShift == 28) return to_floats({_mm256_srli_epi32(words.lo, 28), _mm256_srli_epi32(words.hi, 28)});
  const __m256i mask = _mm256_set1_epi32(int32_t(15u << kShift));
  return to_floats({_mm256_and_si256(words.lo, mask), _mm256_and_si256(words.hi, mask)});
}

// The signed byte of each word, from `kShift` on.
template <int kShift>
inline Floats bytes_at(Ints words) {
  return to_floats({_mm256_srai_epi32(_mm256_slli_epi32(words.lo, 24 - kShift), 24),
                    _mm256_srai_epi32(_mm256_slli_epi32(words.hi, 24 - kShift), 24)});
}

// Values within [-128, 127].
inline void store_bytes(int8_t* p, Ints a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
  _mm_storeu_si128((__m128i*)p, _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

// 64 weights: four of each of 16 rows, so that lane r of a dot product belongs to row r.
struct Nibbles { __m256i lo, hi; };                   // 0..15 each
struct Bytes { __m256i lo, hi, abs_lo, abs_hi; };     // -128..127 each

inline void load_nibbles(const uint8_t* p, Nibbles& low, Nibbles& high) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i lo = _mm256_loadu_si256((const __m256i*)p), hi = _mm256_loadu_si256((const __m256i*)(p + 32));
  low = {_mm256_and_si256(lo, mask), _mm256_and_si256(hi, mask)};
  high = {_mm256_and_si256(_mm256_srli_epi16(lo, 4), mask), _mm256_and_si256(_mm256_srli_epi16(hi, 4), mask)};
}

// The same weights after unpacking: 64 bytes.
inline Nibbles load_unpacked(const uint8_t* p) {
  return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 32))};
}
inline void store_unpacked(uint8_t* p, Nibbles a) {
  _mm256_storeu_si256((__m256i*)p, a.lo);
  _mm256_storeu_si256((__m256i*)(p + 32), a.hi);
}

inline Bytes load_bytes(const uint8_t* p) {
  const __m256i lo = _mm256_loadu_si256((const __m256i*)p), hi = _mm256_loadu_si256((const __m256i*)(p + 32));
  return {lo, hi, _mm256_abs_epi8(lo), _mm256_abs_epi8(hi)};
}

inline __m256i splat_four(const int8_t* activations) {
  int32_t four;
  std::memcpy(&four, activations, 4);
  return _mm256_set1_epi32(four);
}

// Sums over a group of 32 of 4-bit weights × 8-bit activations: 16 rows of weights × M rows of activations. A 16-bit lane
// takes 16 products of at most 15 × 127, which cannot overflow.
template <int M>
struct NibbleDots {
  __m256i lo[M], hi[M];

  NibbleDots() {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) lo[m] = hi[m] = _mm256_setzero_si256();
  }

  // quads: four activations of each row
  void add(const Nibbles& weights, const int8_t* quads) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const __m256i four = splat_four(quads + 4 * m);
      lo[m] = _mm256_add_epi16(lo[m], _mm256_maddubs_epi16(weights.lo, four));
      hi[m] = _mm256_add_epi16(hi[m], _mm256_maddubs_epi16(weights.hi, four));
    }
  }

  Ints sum(int m) const {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(lo[m], ones), _mm256_madd_epi16(hi[m], ones)};
  }
};

// The same for 8-bit weights: |weight| × (activation with the weight's sign), since one operand must be unsigned.
template <int M>
struct ByteDots {
  __m256i lo[M], hi[M];

  ByteDots() {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) lo[m] = hi[m] = _mm256_setzero_si256();
  }

  void add(const Bytes& weights, const int8_t* quads) {
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const __m256i four = splat_four(quads + 4 * m);
      const __m256i low = _mm256_maddubs_epi16(weights.abs_lo, _mm256_sign_epi8(four, weights.lo));
      const __m256i high = _mm256_maddubs_epi16(weights.abs_hi, _mm256_sign_epi8(four, weights.hi));
      lo[m] = _mm256_add_epi32(lo[m], _mm256_madd_epi16(low, ones));
      hi[m] = _mm256_add_epi32(hi[m], _mm256_madd_epi16(high, ones));
    }
  }

  Ints sum(int m, int32_t /*total of the activations*/) const { return {lo[m], hi[m]}; }
};

inline void pause() { _mm_pause(); }
inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }
inline void prefetch_far(const void*) {}  // not found to pay on processors of this form

}  // namespace simd
