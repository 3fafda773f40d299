// Sixteen lanes as one AVX-512 register; integer dot products by VNNI.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace simd {

constexpr int kTileRows = 8;  // rows of activations that share one load of weights

struct Floats { __m512 v; };
struct Ints { __m512i v; };

inline Floats splat(float x) { return {_mm512_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  // a * b + c
inline Floats abs(Floats a) { return {_mm512_abs_ps(a.v)}; }
inline Floats round(Floats a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
inline Ints to_ints(Floats a) { return {_mm512_cvtps_epi32(a.v)}; }
inline Floats to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }

// 2 to the power of `n`, a whole number in [-126, 127]
inline Floats power_of_two(Floats n) { return {_mm512_scalef_ps(_mm512_set1_ps(1.0f), n.v)}; }

inline float largest(Floats a) { return _mm512_reduce_max_ps(a.v); }
inline float sum(Floats a) { return _mm512_reduce_add_ps(a.v); }
inline int32_t sum(Ints a) { return _mm512_reduce_add_epi32(a.v); }

// Lanes below `count` of `a`, `otherwise` in the rest.
inline Floats keep_below(Floats a, int count, float otherwise) {
  const __mmask16 kept = count >= 16 ? 0xffff : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
  return {_mm512_mask_blend_ps(kept, _mm512_set1_ps(otherwise), a.v)};
}

// Lanes from `first` on of `a`, `otherwise` in those before.
inline Floats keep_from(Floats a, int first, float otherwise) {
  const __mmask16 kept = first >= 16 ? 0 : first <= 0 ? 0xffff : (__mmask16)(0xffffu << first);
  return {_mm512_mask_blend_ps(kept, _mm512_set1_ps(otherwise), a.v)};
}

// Lanes of `a` whose bits are set, `otherwise` in the rest.
inline Floats keep_bits(Floats a, uint32_t bits, float otherwise) {
  return {_mm512_mask_blend_ps((__mmask16)bits, _mm512_set1_ps(otherwise), a.v)};
}

inline Floats load_half(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }

inline Floats load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

// To the nearest, ties to even; of finite values.
inline void store_bf16(uint16_t* p, Floats a) {
  const __m512i bits = _mm512_castps_si512(a.v), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

inline Floats load_int8(const int8_t* p) {
  return to_floats({_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p))});
}

// Of 16 pairs of bfloat16 the first of each, or the second.
inline Floats load_bf16_first(const uint8_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
}

inline Floats load_bf16_second(const uint8_t* p) {
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(int32_t(0xffff0000))))};
}

// Sixteen words of 32 bits, for what lies in parts of them.
inline Ints load_words(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }

// Four bits of each word, from `kShift` on: 0..15.
template <int kShift>
inline Floats nibbles_at(Ints words) {
  return to_floats(Ints{_mm512_and_si512(_mm512_srli_epi32(words.v, kShift), _mm512_set1_epi32(15))});
}

// Four bits of each of sixteen words, from `kShift` on, where they lie: 0..15 times 2^kShift; from 28 on without the factor.
template <int kShift>
inline Floats nibbles_in_place(const uint8_t* p) {
  const __m512i words = _mm512_loadu_si512(p);
  if (kShift == 28) return to_floats(Ints{_mm512_srli_epi32(words, 28)});
  return to_floats(Ints{_mm512_and_si512(words, _mm512_set1_epi32(int32_t(15u << kShift)))});
}

// The signed byte of each word, from `kShift` on.
template <int kShift>
inline Floats bytes_at(Ints words) {
  return to_floats(Ints{_mm512_srai_epi32(_mm512_slli_epi32(words.v, 24 - kShift), 24)});
}

// Values within [-128, 127].
inline void store_bytes(int8_t* p, Ints a) { _mm_storeu_si128((__m128i*)p, _mm512_cvtsepi32_epi8(a.v)); }

// 64 weights: four of each of 16 rows, so that lane r of a dot product belongs to row r.
struct Nibbles { __m512i v; };  // 0..15 each
struct Bytes { __m512i v; };    // weight + 128, since VNNI wants them unsigned

inline void load_nibbles(const uint8_t* p, Nibbles& low, Nibbles& high) {
  const __m512i mask = _mm512_set1_epi8(15), both = _mm512_loadu_si512(p);
  low = {_mm512_and_si512(both, mask)};
  high = {_mm512_and_si512(_mm512_srli_epi16(both, 4), mask)};
}

// The same weights after unpacking: 64 bytes.
inline Nibbles load_unpacked(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
inline void store_unpacked(uint8_t* p, Nibbles a) { _mm512_storeu_si512(p, a.v); }

inline Bytes load_bytes(const uint8_t* p) {
  return {_mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8((char)0x80))};
}

inline __m512i splat_four(const int8_t* activations) {
  int32_t four;
  std::memcpy(&four, activations, 4);
  return _mm512_set1_epi32(four);
}

// sums += 64 weights × the same four activations for each 16 rows. Written out, since GCC loads the four into a register
// of their own first, and the loops are bound by how many instructions a processor takes in.
inline void add_dots(__m512i& sums, __m512i weights, const int8_t* four) {
#if defined(__clang__)
  sums = _mm512_dpbusd_epi32(sums, weights, splat_four(four));
#else
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(weights), "m"(*reinterpret_cast<const int8_t(*)[4]>(four)));
#endif
}

// Sums over a group of 32 of 4-bit weights × 8-bit activations: 16 rows of weights × M rows of activations.
template <int M>
struct NibbleDots {
  __m512i acc[M];

  NibbleDots() {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[m] = _mm512_setzero_si512();
  }

  // quads: four activations of each row
  void add(const Nibbles& weights, const int8_t* quads) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) add_dots(acc[m], weights.v, quads + 4 * m);
  }

  Ints sum(int m) const { return {acc[m]}; }
};

// The same for 8-bit weights; what the 128 on each weight adds is taken off at the end.
template <int M>
struct ByteDots {
  __m512i acc[M];

  ByteDots() {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) acc[m] = _mm512_setzero_si512();
  }

  void add(const Bytes& weights, const int8_t* quads) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) add_dots(acc[m], weights.v, quads + 4 * m);
  }

  Ints sum(int m, int32_t activation_total) const {
    return {_mm512_add_epi32(acc[m], _mm512_set1_epi32(-128 * activation_total))};
  }
};

inline void pause() { _mm_pause(); }
inline void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

// Into the second-level cache, which has more requests under way than the first.
inline void prefetch_far(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }

}  // namespace simd
