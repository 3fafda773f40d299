// A Llama-like decoder in memory, and one forward pass over the rows of a step.
#pragma once
#include <limits>
#include <memory>
#include <vector>

#include "attention.h"
#include "head_screen.h"
#include "kernels.h"
#include "lora.h"
#include "matmul.h"
#include "read_pass.h"
#include "rotary.h"
#include "thread_pool.h"

class Decoder {
 public:
  Decoder(const sm_shape& shape, const float* cos, const float* sin);

  // `weights` is the number of a weight set.
  void set_layer(int weights, int index, const sm_layer& layer);
  void set_ends(int weights, const PackedMatrix* embedding, const PackedMatrix* head, const float* norm);
  void zero(int page) { kv_.zero(page); }
  void copy(int from, int to) { kv_.copy(from, to); }
  size_t kv_bytes() const { return kv_.num_bytes(); }

  // See sm_export_pages; both say whether every number is finite.
  size_t stored_page_bytes(KvFormat format) const;
  bool export_page(int page, KvFormat format, uint8_t* to) const;
  bool import_page(int page, KvFormat format, const uint8_t* from);

  // No parts: the adapter is taken away.
  void set_adapter(int adapter, const sm_lora* parts, int num_parts);

  // From now on the set's head is screened; see sm_decoder_screen_head.
  void screen_head(int weights, int vocab, const float* basis, const float* scale);

  // Writes the rows' KV; logits: [num_samples, vocabulary rounded up to 16]. seconds: one for each part, or null.
  void step(int weights, const sm_batch& batch, float* logits, double* seconds);

  // Single stages; see sm_stage_embed and those after it.
  void embed_stage(int weights, const sm_batch& batch, float* x);
  void norm_stage(int weights, int layer, int norm, int num_rows, const float* x, float* normed);
  void attend_stage(int weights, int layer, const sm_batch& batch, const float* normed, float* x);
  void mlp_stage(int weights, int layer, const sm_batch& batch, const float* normed, float* x);
  void head_stage(int weights, int num_rows, const float* normed, float* logits);

  // At most so many threads from the next step on; results do not depend on it.
  void limit_threads(int most) { pool_.limit(most); }

  // Reads what a step of one row reads of the weights, on all threads; the number of bytes.
  size_t read_pass(int weights);

 private:
  struct Layer {
    const PackedMatrix *qkv, *output, *gate_up, *down;
    int window;  // how many last tokens a token sees, itself included; 0: all
    std::vector<float> attention_norm, ffn_norm, qkv_bias, output_bias, q_norm, k_norm;
  };
  // The model in one precision. All sets read and write the same KV pages.
  struct WeightSet {
    std::vector<Layer> layers;
    const PackedMatrix *embedding = nullptr, *head = nullptr;
    std::vector<float> norm;
    std::shared_ptr<HeadScreen> screen;  // or null
  };
  class Clock;
  struct Scratch {
    AttentionScratch attention;
    Buffer<float> normed;  // as normed_ and hidden_, where each thread makes all rows for itself
    Activations hidden;
    MatmulScratch matmul;
  };

  // Every stage is run by all threads at once; `thread` takes its share.
  void run_stages(int thread, Clock& clock);
  void write_stages(int index, int thread, Clock& clock);
  void attend_stages(int index, int thread, Clock& clock);
  void keep_sampled_rows();
  void mlp_stages(int index, int thread, Clock& clock);
  void shrink(int index, Target first, int count, const float* x, size_t stride, int thread, Clock& clock);
  void head_stages(int thread, Clock& clock);
  void project_head(int num_rows, int thread);
  void prepare_head();
  void order_samples();
  void screen_logits(int thread, Clock& clock);
  void bound_logits(int thread);
  // How much of a row of logits is computed: all of it, what can win, or the blocks in which a token is allowed.
  enum class Extent { kWhole, kScreened, kPicked };
  struct HeadRow {
    int sample;
    Extent extent;
    const uint8_t* bits;  // of the tokens that its grammar allows; null: all are
    int num_bytes;

    // Of the 16 tokens of a block: bit i for the i-th.
    uint32_t allowed(int block) const {
      if (bits == nullptr) return kAllAllowed;
      const int at = block * kBlockRows / 8, known = num_bytes - at;
      return known >= 2 ? uint32_t(bits[at] | bits[at + 1] << 8) : known == 1 ? bits[at] : 0;
    }
  };
  static constexpr uint32_t kAllAllowed = 0xffff;
  HeadRow head_row(int sample) const;
  // What one choice is known to reach, and the block of the token that does.
  struct Best { double value = -std::numeric_limits<double>::infinity(); int block = -1; };
  void consider(int block, int slot, simd::Floats sixteen, Best& best);
  int64_t compute_reachable(int slot, double reachable, int thread);
  simd::Floats head_block(int block, int slot, int thread);
  void pick_logits(int slot, int thread);
  float* logits_of(int slot) { return logits_ + size_t(head_rows_[slot].sample) * weights_->head->rows(); }
  template <class Work>
  void run_stage(int weights, const sm_batch& batch, Work work);
  template <class Work>
  void run_on_rows(int weights, const sm_batch& batch, const float* normed, float* x, Work work);

  void embed(int thread);
  // Both make the rows what `consumer` is multiplied with: in 8 bits, or as they are.
  void norm(const std::vector<float>& weight, const PackedMatrix& consumer, int thread, Clock& clock);
  void norm_row(int from, const float* weight, const PackedMatrix& consumer, int to, float* normed, Activations& hidden);
  // The rows that `norm` has made for this thread.
  const Activations& normed(int thread) const { return norms_alone_ ? scratch_[thread].hidden : hidden_; }
  void quantize(const float* rows, const PackedMatrix& consumer, Activations& out, int thread);
  void project_qkv(int index, int thread);
  void project_onto_rows(const PackedMatrix& w, const Activations& x, const std::vector<float>& bias, int index,
                         Target target, int thread);
  void rotate_and_write(int index, int thread);
  void rotate_queries(int index, int row, int begin, int end);
  void rotate_and_write_keys(int index, int row, int begin, int end);
  void attend(int index, int thread);
  void attend(int index, int head, int begin, int end, int thread);
  void gated(int index, int thread);
  void quantize_groups(const float* row, const PackedMatrix& consumer, Activations& out, int index, int begin, int end);

  struct Share { int begin, end; };
  Share share(int count, int thread) const {
    const int threads = pool_.num_threads();
    return {int(int64_t(count) * thread / threads), int(int64_t(count) * (thread + 1) / threads)};
  }
  void reserve(const sm_batch& batch);
  void choose_tasks(const sm_batch& batch);
  int qkv_width() const { return (shape_.num_heads + 2 * shape_.num_kv_heads) * shape_.head_dim; }
  int attended_width() const { return shape_.num_heads * shape_.head_dim; }

  const sm_shape shape_;
  ThreadPool pool_;
  WeightSet weight_sets_[SM_MAX_WEIGHT_SETS];
  std::vector<float> cos_, sin_;
  KvPages kv_;
  Adapters adapters_;

  // One step: N rows.
  const WeightSet* weights_ = nullptr;
  const sm_batch* batch_ = nullptr;
  float* logits_ = nullptr;
  Buffer<float> x_;         // [N, H] residual stream
  Buffer<float> qkv_;       // [N, qkv width]
  Buffer<float> attended_;  // [N, heads × D]
  Buffer<float> gated_;     // [N, F]
  Buffer<float> normed_;    // [N, H] what exact weights and adapters are multiplied with
  Activations hidden_, attended_q_, gated_q_;
  std::vector<HeadRow> head_rows_;      // in the order of their rows in the head: by extent
  int num_whole_ = 0, num_screened_ = 0;
  bool waits_for_masks_ = false;        // they may still come while the layers are computed
  ScreenedRows screened_;
  std::vector<double> reachable_;       // [slots, threads] a choice's value that is certainly reached
  std::atomic<int64_t> num_reaching_{0};
  std::vector<Scratch> scratch_;        // by thread
  std::atomic<int64_t> read_{0};        // keeps the compiler from leaving out a read pass
  size_t max_tokens_ = 0;               // the longest sequence of the step, in whole pages
  bool norms_alone_ = false;            // few rows: norms take less time than threads that wait for each other
  bool attends_alone_ = false;          // no two rows are of one sequence: a head can be attended without the others
  bool drops_rows_ = false;             // some rows have no logits: they leave the last layer when it has their KV
  sm_batch sampled_;                    // the others, from then on
  std::vector<int32_t> sampled_rows_;   // its positions, sequences and rows
  int max_queries_ = 0;                 // that attend together: their scores stay in the second-level cache
  static constexpr size_t kScoreBytes = (simd::kTileRows >= 8 ? 512 : 256) << 10;
  static constexpr int kFewRows = 2;
};
