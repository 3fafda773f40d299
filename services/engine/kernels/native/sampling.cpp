// A token is argmax(logits / temperature + Gumbel noise) over the tokens that the filters leave, in double precision.
//
// The noise of a token comes from a counter, so it can be bounded before it is computed: its logarithms are taken only
// for the few tokens that can still win. Loops over blocks are written so that the compiler makes vectors of them.
#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "noise.h"
#include "simd.h"

namespace {

using noise::bits_of, noise::double_of, noise::gumbel, noise::random_bits;

constexpr int kBlock = 64;
constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr double kNever = -std::numeric_limits<double>::infinity();

// e to the power of x <= 0, to about one unit in the last place; 0 below -700.
inline double exp_of(double x) {
  const double bounded = x > -700.0 ? x : -700.0;
  const double shifted = bounded * 1.4426950408889634 + 0x1.8p52;
  const double n = shifted - 0x1.8p52;
  const double rest = bounded - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800;
  p = p * rest + 1.0 / 479001600;
  p = p * rest + 1.0 / 39916800;
  p = p * rest + 1.0 / 3628800;
  p = p * rest + 1.0 / 362880;
  p = p * rest + 1.0 / 40320;
  p = p * rest + 1.0 / 5040;
  p = p * rest + 1.0 / 720;
  p = p * rest + 1.0 / 120;
  p = p * rest + 1.0 / 24;
  p = p * rest + 1.0 / 6;
  p = p * rest + 0.5;
  p = p * rest + 1.0;
  p = p * rest + 1.0;
  const double power = double_of(bits_of(p) + (bits_of(shifted) << 52));
  return x < -700.0 ? 0.0 : power;
}

struct Peak {
  float value = kForbidden;
  int token = 0;
  bool finite = true;  // every logit is
};

// The largest logit and its first token.
Peak find_peak(const float* x, int size) {
  constexpr int kSpan = 16 * kBlock;
  Peak peak;
  int best_span = 0;
  for (int begin = 0; begin < size; begin += kSpan) {
    const int end = std::min(size, begin + kSpan), whole = begin + (end - begin) / 16 * 16;
    simd::Floats largest = simd::splat(kForbidden), zeros = simd::splat(0);
    for (int at = begin; at < whole; at += 16) {
      const simd::Floats values = simd::load(x + at);
      largest = simd::max(largest, values);
      zeros = zeros + values * simd::splat(0);  // not a number as soon as one is not finite
    }
    float top = simd::largest(largest), zero = simd::sum(zeros);
    for (int at = whole; at < end; ++at) {
      top = std::max(top, x[at]);
      zero += x[at] * 0;
    }
    peak.finite &= zero == 0;
    if (top > peak.value) {
      peak.value = top;
      best_span = begin;
    }
  }
  for (peak.token = best_span; peak.token < size && x[peak.token] != peak.value;) ++peak.token;
  return peak;
}

// One row, with the tokens that may not be chosen at -inf.
class Row {
 public:
  Row(const float* x, int size) : x_(x), size_(size) {}

  int draw(const sm_draw& how, const Peak& peak) {
    how_ = &how;
    peak_ = peak;
    scaled_peak_ = double(peak.value) / how.temperature;
    lowest_ = how.min_p > 0 ? scaled_peak_ + std::log(how.min_p) : kNever;
    best_ = kNever;
    token_ = size_;
    consider(peak.token, scaled_peak_);
    const bool cuts = (how.top_k > 0 && how.top_k < size_) || how.top_p != 1;
    cuts ? draw_of_kept() : draw_of_all();
    return token_;
  }

  double log_normalizer(float peak) {
    scaled_peak_ = peak;
    return peak + std::log(mass_of_all(1.0));
  }

  // Tokens of the `count` largest logits and their equals, ordered from the best.
  const std::vector<int32_t>& best_tokens(float peak, size_t count, double scale) {
    gather(peak, scale, [&] { return tokens_.size() >= count; });
    if (count < tokens_.size()) {
      const auto larger = [&](int32_t a, int32_t b) { return x_[a] > x_[b]; };
      std::nth_element(tokens_.begin(), tokens_.begin() + (count - 1), tokens_.end(), larger);
      const float last = x_[tokens_[count - 1]];
      tokens_.erase(std::remove_if(tokens_.begin(), tokens_.end(), [&](int32_t t) { return x_[t] < last; }),
                    tokens_.end());
    }
    std::sort(tokens_.begin(), tokens_.end(), [&](int32_t a, int32_t b) { return x_[a] > x_[b] || (x_[a] == x_[b] && a < b); });
    return tokens_;
  }

 private:
  double scaled(int token) const { return double(x_[token]) / how_->temperature; }

  void consider(int token, double scaled) {
    const double value = scaled + gumbel(random_bits(how_->noise_key, token));
    if (value > best_ || (value == best_ && token < token_)) {
      best_ = value;
      token_ = token;
    }
  }

  void draw_of_all() {
    for (int begin = 0; begin < size_; begin += kBlock) {
      const int count = std::min(kBlock, size_ - begin);
      double scaled[kBlock], bound[kBlock];
      const double temperature = how_->temperature;
      for (int i = 0; i < count; ++i) scaled[i] = double(x_[begin + i]) / temperature;
      const uint64_t key = how_->noise_key;
      for (int i = 0; i < count; ++i) bound[i] = scaled[i] + noise::bound(random_bits(key, begin + i));
      for (int i = 0; i < count; ++i)
        if (bound[i] >= best_ && scaled[i] >= lowest_ && scaled[i] > kNever) consider(begin + i, scaled[i]);
    }
  }

  // After top_k and top_p; both leave the likeliest tokens.
  void draw_of_kept() {
    const bool cuts = how_->top_k > 0 && how_->top_k < size_;
    double mass = 0;
    if (cuts) {
      best_tokens(peak_.value, how_->top_k, how_->temperature);
      drop_below_lowest();
      for (const int32_t token : tokens_) mass += weight(token);
    } else {
      mass = mass_of_all(how_->temperature);
      const double wanted = how_->top_p * mass;
      gather(peak_.value, how_->temperature, [&] {
        double gathered = 0;
        for (const int32_t token : tokens_) gathered += scaled(token) >= lowest_ ? weight(token) : 0;
        return gathered > wanted;
      });
      drop_below_lowest();
      best_tokens_of_gathered();
    }
    const double wanted = how_->top_p * mass;
    double sum = 0;
    for (const int32_t token : tokens_) {
      const double own = weight(token);
      sum += own;
      if (how_->top_p != 1 && !(sum - own < wanted)) break;
      const double value = scaled(token);
      if (value + noise::bound(random_bits(how_->noise_key, token)) >= best_) consider(token, value);
    }
  }

  double weight(int token) const { return std::exp(scaled(token) - scaled_peak_); }

  void drop_below_lowest() {
    if (lowest_ == kNever) return;
    tokens_.erase(std::remove_if(tokens_.begin(), tokens_.end(), [&](int32_t t) { return scaled(t) < lowest_; }),
                  tokens_.end());
  }

  void best_tokens_of_gathered() {
    std::sort(tokens_.begin(), tokens_.end(), [&](int32_t a, int32_t b) { return x_[a] > x_[b] || (x_[a] == x_[b] && a < b); });
  }

  // Fill tokens_ with those near the peak, and go further down until `enough()`.
  template <class Enough>
  void gather(float peak, double scale, Enough enough) {
    for (const double depth : {3.0, 6.0, 9.0, 12.0, 16.0, 24.0, std::numeric_limits<double>::infinity()}) {
      const float cut = float(double(peak) - depth * scale);
      tokens_.clear();
      for (int begin = 0; begin < size_; begin += kBlock) {
        const int count = std::min(kBlock, size_ - begin);
        int32_t found[kBlock];
        int num_found = 0;
        for (int i = 0; i < count; ++i) {
          found[num_found] = begin + i;
          num_found += x_[begin + i] >= cut && x_[begin + i] > kForbidden;
        }
        tokens_.insert(tokens_.end(), found, found + num_found);
      }
      if (enough()) return;
    }
  }

  // Sum of exp(scaled - scaled peak) over all tokens at or above the lowest.
  double mass_of_all(double temperature) const {
    double lanes[8] = {};
    const double peak = scaled_peak_, lowest = lowest_;
    for (int begin = 0; begin < size_; begin += kBlock) {
      float logits[kBlock];
      std::copy_n(x_ + begin, std::min(kBlock, size_ - begin), logits);
      std::fill(logits + std::min(kBlock, size_ - begin), logits + kBlock, kForbidden);
      double weights[kBlock];
      for (int i = 0; i < kBlock; ++i) {
        const double scaled = double(logits[i]) / temperature, weight = exp_of(scaled - peak);
        weights[i] = scaled >= lowest ? weight : 0.0;
      }
      for (int i = 0; i < kBlock; i += 8)
        for (int lane = 0; lane < 8; ++lane) lanes[lane] += weights[i + lane];
    }
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }

  const float* const x_;
  const int size_;
  const sm_draw* how_ = nullptr;
  Peak peak_;
  double scaled_peak_ = 0, lowest_ = kNever, best_ = kNever;
  int token_ = 0;
  std::vector<int32_t> tokens_;
};

// The logits of allowed tokens, kForbidden for the others; whether all logits are finite.
bool copy_allowed(const sm_draw& how, int size, float* out) {
  const int known = std::min(size, how.num_allowed), whole = known / 16 * 16;
  simd::Floats zeros = simd::splat(0);
  for (int at = 0; at < whole; at += 16) {
    uint16_t bits;
    std::memcpy(&bits, how.allowed + at / 8, sizeof bits);
    const simd::Floats values = simd::load(how.logits + at);
    zeros = zeros + values * simd::splat(0);  // not a number as soon as one is not finite
    simd::store(out + at, simd::keep_bits(values, bits, kForbidden));
  }
  float zero = simd::sum(zeros);
  for (int token = whole; token < size; ++token) {
    const bool is_allowed = token < known && (how.allowed[token / 8] >> (token % 8) & 1);
    out[token] = is_allowed ? how.logits[token] : kForbidden;
    zero += how.logits[token] * 0;
  }
  return zero == 0;
}

int draw(const sm_draw& how, int size, std::vector<float>& masked) {
  const float* x = how.logits;
  bool finite = true;
  if (how.allowed != nullptr) {
    masked.resize(size);
    finite = copy_allowed(how, size, masked.data());
    x = masked.data();
  }
  const Peak peak = find_peak(x, size);
  if (how.allowed == nullptr) finite = peak.finite;
  if (!how.is_modified && !finite) return SM_NOT_FINITE;
  if (how.temperature == 0) return peak.value == kForbidden ? 0 : peak.token;
  if (peak.value == kForbidden) return SM_NOTHING_ALLOWED;
  return Row(x, size).draw(how, peak);
}

}  // namespace

void sm_draw_tokens(const sm_draw* draws, int32_t num_draws, int32_t vocab_size, int32_t* tokens) {
  std::vector<float> masked;
  for (int32_t at = 0; at < num_draws; ++at) {
    try {
      tokens[at] = draw(draws[at], vocab_size, masked);
    } catch (const std::bad_alloc&) {
      tokens[at] = SM_NO_MEMORY;
    }
  }
}

int32_t sm_logprobs(const float* logits, int32_t vocab_size, int32_t token, int32_t num_top, double* logprob,
                    int32_t* top_tokens, double* top_logprobs) {
  try {
    const Peak peak = find_peak(logits, vocab_size);
    Row row(logits, vocab_size);
    const double normalizer = row.log_normalizer(peak.value);
    *logprob = double(logits[token]) - normalizer;
    if (num_top == 0) return 0;
    const std::vector<int32_t>& best = row.best_tokens(peak.value, num_top, 1.0);
    for (int32_t at = 0; at < num_top; ++at) {
      top_tokens[at] = best[at];
      top_logprobs[at] = double(logits[best[at]]) - normalizer;
    }
    return 0;
  } catch (const std::bad_alloc&) {
    return SM_NO_MEMORY;
  }
}
