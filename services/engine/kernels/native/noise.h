// The noise of sampling: a counter's, so that the noise of one token costs nothing for the others.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace noise {

constexpr double kLn2 = 0.69314718055994530942;

inline uint64_t bits_of(double x) { uint64_t bits; std::memcpy(&bits, &x, 8); return bits; }
inline double double_of(uint64_t bits) { double x; std::memcpy(&x, &bits, 8); return x; }

// Output `token` of SplitMix64 seeded with `key`, its upper 52 bits.
inline uint64_t random_bits(uint64_t key, uint64_t token) {
  uint64_t z = key + (token + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) >> 12;
}

// u = (bits + 1/2) / 2^52, noise = -log(-log u)
inline double gumbel(uint64_t bits) { return -std::log(-std::log((double(bits) + 0.5) * 0x1p-52)); }

// Not below the noise: -log(-log u) <= -log(1 - u), and 1 - u is at least half of 2^exponent <= 1 - bits / 2^52.
inline double bound(uint64_t bits) {
  const double rest = 2.0 - double_of(0x3FF0000000000000u | bits);
  const double exponent = double_of(0x4330000000000000u | (bits_of(rest) >> 52)) - 0x1p52 - 1023.0;
  return (1.0 - exponent) * kLn2;
}

}  // namespace noise
