// bfloat16 numbers without loss in 3/4 of their bytes, at the speed of memory.
//
// Numbers near each other have near exponents. Of 32 numbers one byte holds the largest exponent, and each number 4 bits of
// how far its own lies below that, a byte with its sign and its fraction. What lies 15 or more below stands in full at the
// end, with its place.
//   number of those: 4 bytes; groups: {largest 1, distances 16, signs and fractions 32}; {place 4, number 2} ...
#include <immintrin.h>

#include <cstring>

#include "kernels.h"

namespace {

constexpr size_t kGroupValues = 32, kGroupBytes = 49, kCountBytes = 4, kFarBytes = 6;
constexpr int kFar = 15;

// 16 numbers of a group: as they are, exponents, and signs with fractions. All in 16 bits each.
struct Half {
  explicit Half(const uint8_t* from) {
    const __m256i words = _mm256_loadu_si256((const __m256i*)from);
    exponents = _mm256_and_si256(_mm256_srli_epi16(words, 7), _mm256_set1_epi16(0xff));
    fractions = _mm256_or_si256(_mm256_and_si256(words, _mm256_set1_epi16(0x7f)),
                                _mm256_and_si256(_mm256_srli_epi16(words, 8), _mm256_set1_epi16(0x80)));
  }
  __m256i exponents, fractions;
};

inline uint16_t largest(__m256i words) {
  const __m128i eight = _mm_max_epu16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  const __m128i least = _mm_minpos_epu16(_mm_sub_epi16(_mm_set1_epi16(-1), eight));
  return uint16_t(0xffff - _mm_extract_epi16(least, 0));
}

// Where in a group the number is that a pack of two halves puts at byte `at`.
inline int place_of(int at) { return at % 8 + (at / 16) * 8 + (at / 8 % 2) * 16; }

// Which bytes of `distances` say that a number stands in full elsewhere.
inline uint32_t pack_group(const uint8_t* from, uint8_t* to) {
  const Half a(from), b(from + 32);
  const uint16_t top = largest(_mm256_max_epu16(a.exponents, b.exponents));
  const auto distance = [&](const Half& half) {
    return _mm256_min_epu16(_mm256_sub_epi16(_mm256_set1_epi16(int16_t(top)), half.exponents), _mm256_set1_epi16(kFar));
  };
  const __m256i distances = _mm256_packus_epi16(distance(a), distance(b));
  const __m128i pairs = _mm_or_si128(_mm256_castsi256_si128(distances),
                                     _mm_slli_epi16(_mm256_extracti128_si256(distances, 1), 4));
  to[0] = uint8_t(top);
  _mm_storeu_si128((__m128i*)(to + 1), pairs);
  _mm256_storeu_si256((__m256i*)(to + 17), _mm256_packus_epi16(a.fractions, b.fractions));
  return uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(distances, _mm256_set1_epi8(kFar))));
}

inline void unpack_group(const uint8_t* from, uint8_t* to) {
  const __m128i pairs = _mm_loadu_si128((const __m128i*)(from + 1)), four = _mm_set1_epi8(15);
  const __m256i distances =
      _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(pairs, 4), four), _mm_and_si128(pairs, four));
  const __m256i fractions = _mm256_loadu_si256((const __m256i*)(from + 17)), zero = _mm256_setzero_si256();
  const auto join = [&](__m256i distance, __m256i fraction) {
    const __m256i exponent = _mm256_and_si256(_mm256_sub_epi16(_mm256_set1_epi16(from[0]), distance), _mm256_set1_epi16(0xff));
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(fraction, _mm256_set1_epi16(0x80)), 8);
    return _mm256_or_si256(_mm256_or_si256(sign, _mm256_slli_epi16(exponent, 7)),
                           _mm256_and_si256(fraction, _mm256_set1_epi16(0x7f)));
  };
  _mm256_storeu_si256((__m256i*)to, join(_mm256_unpacklo_epi8(distances, zero), _mm256_unpacklo_epi8(fractions, zero)));
  _mm256_storeu_si256((__m256i*)(to + 32),
                      join(_mm256_unpackhi_epi8(distances, zero), _mm256_unpackhi_epi8(fractions, zero)));
}

}  // namespace

size_t sm_pack_bf16(const uint8_t* values, size_t num_values, uint8_t* out, size_t room) {
  const size_t num_groups = num_values / kGroupValues;
  size_t size = kCountBytes + num_groups * kGroupBytes;
  if (size > room) return 0;
  uint32_t num_far = 0;
  for (size_t group = 0; group < num_groups; ++group) {
    uint32_t far = pack_group(values + group * 2 * kGroupValues, out + kCountBytes + group * kGroupBytes);
    for (; far != 0; far &= far - 1, ++num_far, size += kFarBytes) {
      if (size + kFarBytes > room) return 0;
      const uint32_t place = uint32_t(group * kGroupValues) + place_of(__builtin_ctz(far));
      std::memcpy(out + size, &place, 4);
      std::memcpy(out + size + 4, values + 2 * size_t(place), 2);
    }
  }
  std::memcpy(out, &num_far, kCountBytes);
  return size;
}

int32_t sm_unpack_bf16(const uint8_t* packed, size_t num_bytes, size_t num_values, uint8_t* values) {
  const size_t num_groups = num_values / kGroupValues, groups_end = kCountBytes + num_groups * kGroupBytes;
  if (num_bytes < groups_end || (num_bytes - groups_end) % kFarBytes != 0) return 1;
  uint32_t num_far = 0, place = 0;
  std::memcpy(&num_far, packed, kCountBytes);
  if (num_far != (num_bytes - groups_end) / kFarBytes) return 1;
  for (size_t group = 0; group < num_groups; ++group)
    unpack_group(packed + kCountBytes + group * kGroupBytes, values + group * 2 * kGroupValues);
  for (const uint8_t* far = packed + groups_end; far != packed + num_bytes; far += kFarBytes) {
    std::memcpy(&place, far, 4);
    if (place >= num_values) return 1;
    std::memcpy(values + 2 * size_t(place), far + 4, 2);
  }
  return 0;
}
