// Rotary positions and the norms of q and k heads.
#pragma once
#include "activations.h"

// x: one head, [D]; cos, sin: [D/2]. Element i turns with element i + D/2.
inline void rotate(float* x, const float* cos, const float* sin, int head_dim) {
  const int half = head_dim / 2;
  for (int i = 0; i < half; i += 16) {
    const simd::Floats a = simd::load(x + i), b = simd::load(x + half + i);
    const simd::Floats c = simd::load(cos + i), s = simd::load(sin + i);
    simd::store(x + i, a * c - b * s);
    simd::store(x + half + i, b * c + a * s);
  }
}

inline void scale_head(float* x, float factor, int head_dim) {
  for (int i = 0; i < head_dim; i += 16) simd::store(x + i, simd::load(x + i) * simd::splat(factor));
}

inline void norm_head(float* x, const float* weight, float eps, int head_dim) {
  const simd::Floats inverse = simd::splat(inverse_rms(x, head_dim, eps));
  for (int i = 0; i < head_dim; i += 16) simd::store(x + i, simd::load(x + i) * inverse * simd::load(weight + i));
}
