// One vocabulary of 16-lane vectors for every kernel; the compiler's flags choose the form.
#pragma once
#if defined(__AVX512VNNI__)
#include "simd_avx512.h"
#elif defined(__AVX2__)
#include "simd_avx2.h"
#else
#error "compile with -mavx2 -mfma -mf16c, or with AVX-512 and VNNI"
#endif

namespace simd {

// e to the power of x, relative error below 1e-6; x is clamped to [-87, 88].
inline Floats exp(Floats x) {
  x = min(max(x, splat(-87.0f)), splat(88.0f));
  const Floats n = round(x * splat(1.44269504f));
  Floats rest = fma(n, splat(-0.693359375f), x);  // ln 2 in two parts, so that the difference stays exact
  rest = fma(n, splat(2.12194440e-4f), rest);
  Floats p = splat(1.0f / 720);
  for (const float coefficient : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = fma(p, rest, splat(coefficient));
  return p * power_of_two(n);
}

}  // namespace simd
