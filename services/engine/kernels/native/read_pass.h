// Reading memory and nothing else: the ceiling of what decoding one sequence can reach.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// XOR of the 32-byte words of `num_bytes`, a multiple of 128: too little work to be what limits the pass.
inline __m256i read_all(const uint8_t* from, size_t num_bytes) {
  constexpr size_t kAhead = 4096;
  __m256i sums[4] = {};
  for (const uint8_t* at = from; at < from + num_bytes; at += 128) {
    _mm_prefetch((const char*)at + kAhead, _MM_HINT_T0);
    _mm_prefetch((const char*)at + kAhead + 64, _MM_HINT_T0);
    for (int i = 0; i < 4; ++i)
      sums[i] = _mm256_xor_si256(sums[i], _mm256_loadu_si256((const __m256i*)(at + 32 * i)));
  }
  return _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
}
