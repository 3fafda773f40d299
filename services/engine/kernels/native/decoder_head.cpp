// The head: all logits of a row, or where one token is to be chosen, those that can win.
#include <algorithm>
#include <limits>

#include "decoder_clock.h"
#include "noise.h"

namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
constexpr int kMostPicked = 8;  // one block in so many, at the most, is worth computing by itself

// How a row's token is chosen: the token with the largest value.
class Choice {
 public:
  explicit Choice(const sm_choice& how) : how_(how), is_greedy_(how.temperature == 0) {}

  double value(float logit, int token) const {
    return is_greedy_ ? double(logit) : scaled(logit) + noise::gumbel(bits(token));
  }

  // Whether one of 16 tokens from `first` on can have a value of `least` or more; `upper` are bounds of their logits, −inf
  // where they are not allowed.
  bool reaches(const float* upper, int first, double least) const {
    bool any = false;
    if (is_greedy_) {
      for (int i = 0; i < kBlockRows; ++i) any |= !(double(upper[i]) < least);
    } else {
      for (int i = 0; i < kBlockRows; ++i) any |= !(scaled(upper[i]) + noise::bound(bits(first + i)) < least);
    }
    return any;
  }

  bool is_lowered(int token) const {
    const int32_t* end = how_.lowered + how_.num_lowered;
    return std::find(how_.lowered, end, token) != end;
  }

 private:
  double scaled(float logit) const { return double(logit) / how_.temperature; }
  uint64_t bits(int token) const { return noise::random_bits(how_.noise_key, uint64_t(token)); }

  const sm_choice& how_;
  const bool is_greedy_;
};

}  // namespace

void Decoder::screen_head(int weights, int vocab, const float* basis, const float* scale) {
  WeightSet& set = weight_sets_[weights];
  for (const WeightSet& other : weight_sets_)
    if (other.screen != nullptr && other.head->block(0, 0) == set.head->block(0, 0)) {
      set.screen = other.screen;
      return;
    }
  const auto screen = std::make_shared<HeadScreen>(*set.head, vocab, basis, scale);
  std::vector<HeadScreen::Norms> largest(shape_.num_threads);
  pool_.run([&](int thread) {
    const Share blocks = share(set.head->num_blocks(), thread);
    largest[thread] = screen->build(blocks.begin, blocks.end);
  });
  if (screen->finish(largest)) set.screen = screen;
}

// What the head needs memory for, before the threads begin.
void Decoder::prepare_head() {
  int num_choices = 0;
  waits_for_masks_ = false;
  for (int sample = 0; batch_->choices != nullptr && sample < batch_->num_samples; ++sample) {
    num_choices += !batch_->choices[sample].wants_all;
    waits_for_masks_ |= batch_->choices[sample].mask != nullptr;
  }
  head_rows_.clear();
  head_rows_.reserve(batch_->num_samples);
  if (weights_->screen != nullptr && num_choices > 0) {
    screened_.reserve(num_choices, shape_.hidden_size);
    reachable_.resize(size_t(num_choices) * shape_.num_threads);
  }
  if (!waits_for_masks_) order_samples();
}

// Rows of the head: samples whose logits are all computed come first.
void Decoder::order_samples() {
  int num_choices = 0;
  for (int sample = 0; sample < batch_->num_samples; ++sample) {
    head_rows_.push_back(head_row(sample));
    num_choices += head_rows_.back().extent == Extent::kScreened;
  }
  if (num_choices > 0 && (weights_->screen == nullptr || !weights_->screen->pays(num_choices)))
    for (HeadRow& row : head_rows_)
      if (row.extent == Extent::kScreened) row.extent = Extent::kWhole;
  std::stable_sort(head_rows_.begin(), head_rows_.end(),
                   [](const HeadRow& a, const HeadRow& b) { return a.extent < b.extent; });
  const auto count = [&](Extent extent) {
    return int(std::count_if(head_rows_.begin(), head_rows_.end(), [&](const HeadRow& row) { return row.extent == extent; }));
  };
  num_whole_ = count(Extent::kWhole);
  num_screened_ = count(Extent::kScreened);
  num_reaching_ = 0;
}

// A sample as its choice and its mask want it, if that is known by now.
Decoder::HeadRow Decoder::head_row(int sample) const {
  if (batch_->choices == nullptr) return {sample, Extent::kWhole, nullptr, 0};
  const sm_choice& choice = batch_->choices[sample];
  const Extent by_choice = choice.wants_all ? Extent::kWhole : Extent::kScreened;
  if (choice.mask == nullptr) return {sample, by_choice, nullptr, 0};
  const uint8_t* bits = __atomic_load_n(&choice.mask->bits, __ATOMIC_ACQUIRE);
  if (bits == nullptr) return {sample, Extent::kWhole, nullptr, 0};
  HeadRow row{sample, by_choice, bits, choice.mask->num_bytes};
  int num_allowed = 0;
  for (int block = 0; block < weights_->head->num_blocks(); ++block) num_allowed += row.allowed(block) != 0;
  if (kMostPicked * num_allowed <= weights_->head->num_blocks()) row.extent = Extent::kPicked;
  return row;
}

// The norm and the head of the rows that are sampled from.
void Decoder::head_stages(int thread, Clock& clock) {
  if (waits_for_masks_) {
    if (thread == 0) order_samples();
    clock.meet(kNorm);
  }
  std::vector<float> hidden(shape_.hidden_size);
  const int screened_end = num_whole_ + num_screened_;
  for (int slot = thread; slot < batch_->num_samples; slot += pool_.num_threads()) {
    norm_row(batch_->sample_rows[head_rows_[slot].sample], weights_->norm.data(), *weights_->head, slot, normed_.data(),
             hidden_);
    if (slot < num_whole_ || slot >= screened_end) continue;
    if (weights_->head->takes_floats()) std::copy_n(hidden_.floats.row(slot), shape_.hidden_size, hidden.data());
    else hidden_.dequantize_row(slot, hidden.data());
    weights_->screen->put(hidden.data(), screened_, slot - num_whole_);
  }
  clock.meet(kNorm);
  if (num_whole_ > 0) project_head(num_whole_, thread);
  for (int slot = screened_end; slot < batch_->num_samples; ++slot) pick_logits(slot, thread);
  if (num_screened_ > 0) screen_logits(thread, clock);
  clock.meet(kSample);
}

// The first `num_rows` rows of `hidden_`.
void Decoder::project_head(int num_rows, int thread) {
  const Share blocks = share(weights_->head->num_blocks(), thread);
  matmul(*weights_->head, hidden_, num_rows, blocks.begin, blocks.end, scratch_[thread].matmul,
         [&](int block, int row, simd::Floats sixteen) { simd::store(logits_of(row) + block * kBlockRows, sixteen); });
}

// Logits of this thread's blocks in which a token is allowed.
void Decoder::pick_logits(int slot, int thread) {
  const Share blocks = share(weights_->head->num_blocks(), thread);
  float* logits = logits_of(slot);
  for (int block = blocks.begin; block < blocks.end; ++block) {
    const bool is_wanted = head_rows_[slot].allowed(block) != 0;
    simd::store(logits + block * kBlockRows, is_wanted ? head_block(block, slot, thread) : simd::splat(SM_OUT_OF_REACH));
  }
}

// Bounds for all tokens, then a value that is reached, then the logits of those whose bounds reach it too.
void Decoder::screen_logits(int thread, Clock& clock) {
  const int threads = pool_.num_threads();
  bound_logits(thread);
  clock.meet(kSample);
  int64_t num_computed = 0;
  for (int row = 0; row < num_screened_; ++row) {
    const double* found = &reachable_[size_t(row) * threads];
    num_computed += compute_reachable(num_whole_ + row, *std::max_element(found, found + threads), thread);
  }
  num_reaching_ += num_computed;
}

// Upper bounds of this thread's tokens, in the place of the logits; and for each row a value that is certainly reached.
void Decoder::bound_logits(int thread) {
  const Share blocks = share(weights_->head->num_blocks(), thread);
  const int threads = pool_.num_threads();
  std::vector<Best> best(num_screened_);
  HeadScreen::Bounds bounds[simd::kTileRows];
  for (int block = blocks.begin; block < blocks.end; ++block)
    for (int row = 0; row < num_screened_; row += simd::kTileRows) {
      const int count = std::min(simd::kTileRows, num_screened_ - row);
      weights_->screen->bounds(block, screened_, row, count, bounds);
      for (int m = 0; m < count; ++m) {
        const int slot = num_whole_ + row + m;
        const uint32_t allowed = head_rows_[slot].allowed(block);
        simd::store(logits_of(slot) + block * kBlockRows, simd::keep_bits(bounds[m].most, allowed, kForbidden));
        consider(block, slot, bounds[m].about, best[row + m]);
      }
    }
  for (int row = 0; row < num_screened_; ++row) {
    Best exact;
    if (best[row].block >= 0)
      consider(best[row].block, num_whole_ + row, head_block(best[row].block, num_whole_ + row, thread), exact);
    reachable_[size_t(row) * threads + thread] = exact.value;
  }
}

// Keeps the better of `best` and what 16 logits of a row are worth.
void Decoder::consider(int block, int slot, simd::Floats sixteen, Best& best) {
  const Choice choice(batch_->choices[head_rows_[slot].sample]);
  const int first = block * kBlockRows, count = std::min(kBlockRows, weights_->screen->vocab() - first);
  float logits[kBlockRows];
  simd::store(logits, simd::keep_bits(sixteen, head_rows_[slot].allowed(block), kForbidden));
  if (best.block >= 0 && !choice.reaches(logits, first, best.value)) return;
  for (int i = 0; i < count; ++i) {
    const double value = choice.value(logits[i], first + i);
    if (value > best.value && !choice.is_lowered(first + i)) best = {value, block};
  }
}

// Logits of this thread's blocks in which a bound reaches `reachable`; the number of such blocks.
int64_t Decoder::compute_reachable(int slot, double reachable, int thread) {
  const Choice choice(batch_->choices[head_rows_[slot].sample]);
  const Share blocks = share(weights_->head->num_blocks(), thread);
  float* logits = logits_of(slot);
  int64_t num_computed = 0;
  for (int block = blocks.begin; block < blocks.end; ++block) {
    const int first = block * kBlockRows;
    const bool reaches = choice.reaches(logits + first, first, reachable);
    simd::store(logits + first, reaches ? head_block(block, slot, thread) : simd::splat(SM_OUT_OF_REACH));
    num_computed += reaches;
  }
  return num_computed;
}

// 16 logits of one row, as `project_head` computes them.
simd::Floats Decoder::head_block(int block, int slot, int thread) {
  const PackedMatrix& head = *weights_->head;
  simd::Floats out;
  if (head.is_bf16()) floats::Bf16::multiply<1, 1>(head, block, hidden_.floats, slot, &out);
  else if (head.takes_floats() && head.is_int4()) {
    floats::NibbleRows& rows = scratch_[thread].matmul.floats.nibbles.rows;
    rows.prepare(hidden_.floats, slot, 1, head.groups());
    floats::multiply_nibbles<1, 1>(head, block, rows, 0, &out);
  } else if (head.takes_floats()) floats::Int8::multiply<1, 1>(head, block, hidden_.floats, slot, &out);
  else multiply_tile<1>(head, block, hidden_, slot, 1, Slice{head.block(block, 0), 0}, &out);
  return out;
}
