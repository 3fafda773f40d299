/* The library's C interface. Arrays are row-major and belong to the caller; float is 32 bits.
 *
 * A decoder keeps pointers to its matrices: free it first. One thread at a time may use a decoder,
 * but for sm_export_pages and sm_import_pages.
 * Functions that allocate return null when there is no memory.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sm_matrix sm_matrix;
typedef struct sm_decoder sm_decoder;

/* A decoder may hold the model in several precisions, its weight sets, over one pool of KV pages: 0, 1, ... */
#define SM_MAX_WEIGHT_SETS 4

/* head_dim and every width of a matrix: multiples of 32. */
typedef struct sm_shape {
  int32_t num_layers, hidden_size, num_heads, num_kv_heads, head_dim, ffn_size;
  int32_t num_positions; /* rows of the rotary tables */
  int32_t num_pages;     /* pages of 16 tokens */
  int32_t num_threads;
  int32_t kv_format;     /* of the KV pages: 0 bfloat16, 1 int8 with a scale for each token and head */
  float rms_norm_eps;
} sm_shape;

/* Vectors that a model does not have are null. gate_up alternates 16 rows of gate and 16 rows of up. */
typedef struct sm_layer {
  const sm_matrix *qkv, *output, *gate_up, *down;
  const float *attention_norm, *ffn_norm, *qkv_bias, *output_bias, *q_norm, *k_norm;
  int32_t window; /* how many last tokens a token sees, itself included; 0: all */
} sm_layer;

/* What a row of logits is for: one token is chosen, the one with the largest
 *   logit (temperature 0), or logit / temperature + noise of sampling.h (noise_key).
 * Then only logits that can win must be there; the others may be SM_OUT_OF_REACH. `lowered` are tokens whose logits the caller
 * will lower before it chooses, or forbid; he raises none. wants_all: nothing is left out.
 *
 * With `mask`, only tokens that it allows are chosen, and the logits of others may be missing whatever wants_all says. */
#define SM_OUT_OF_REACH (-1e30f)

/* Which tokens a grammar allows at one position. Another thread may tell it while a step runs: num_bytes first, then bits.
 * While bits is null it is not known; a step then computes all logits. */
typedef struct sm_mask {
  const uint8_t* bits; /* bit t % 8 of byte t / 8: token t is allowed */
  int32_t num_bytes;   /* tokens beyond are not allowed */
} sm_mask;

typedef struct sm_choice {
  double temperature;
  uint64_t noise_key;
  const int32_t* lowered;
  const sm_mask* mask; /* null: all tokens are allowed */
  int32_t num_lowered;
  int32_t wants_all;
} sm_choice;

/* N rows, the rows of a sequence next to each other and in order of position. */
typedef struct sm_batch {
  int32_t num_rows, num_samples;
  const int32_t *token_ids, *positions; /* [N] */
  const int32_t *sequences;             /* [N] index into page_starts */
  const int32_t *page_starts, *pages;   /* pages[page_starts[s] ...]: the page table of sequence s */
  const int32_t *sample_rows;           /* [num_samples] rows whose logits are wanted, ascending */
  const int32_t *adapters;              /* [N] number of the row's adapter, -1: none; null: none at all */
  const sm_choice *choices;             /* [num_samples]; null: all logits are wanted */
} sm_batch;

/* What an adapter adds to one linear operation of one layer: scale * B(A x). rank: at most SM_MAX_RANK. */
#define SM_MAX_ADAPTERS 64
#define SM_MAX_RANK 64
typedef struct sm_lora {
  int32_t layer, target; /* target: 0 q, 1 k, 2 v, 3 output, 4 gate, 5 up, 6 down */
  int32_t rank;
  float scale;
  const float *a, *b; /* [rank, columns], [rows, rank]; copied */
} sm_lora;

/* format: 0 Q4_0, 1 Q4_1, 2 Q8_0, 3 BF16, in GGUF's block layout. rows are rounded up to 16. */
sm_matrix* sm_matrix_new(int32_t format, int32_t rows, int32_t cols);
sm_matrix* sm_matrix_exact(const sm_matrix*); /* shares the weights; multiplied with activations in float */
void sm_matrix_fill(sm_matrix*, const uint8_t* raw, int32_t num_rows, int32_t first_block, int32_t block_step);
size_t sm_matrix_bytes(const sm_matrix*);
void sm_matrix_free(sm_matrix*);
/* Rows in GGUF's layout from one format (the above, 4 F16, 5 F32) to another (1, 2 or 3), quantized anew. */
void sm_convert(int32_t from, int32_t to, const uint8_t* raw, size_t num_values, uint8_t* out);

/* cos, sin: [num_positions, head_dim / 2] */
sm_decoder* sm_decoder_new(const sm_shape*, const float* cos, const float* sin);
/* Each set that is used must have all its layers and its ends; sets may share matrices. */
void sm_decoder_set_layer(sm_decoder*, int32_t weights, int32_t index, const sm_layer*);
void sm_decoder_set_ends(sm_decoder*, int32_t weights, const sm_matrix* embedding, const sm_matrix* head,
                         const float* norm);
/* From now on a step computes logits of the set's head only where they can win, for samples with a choice that allows it.
 * basis: [SM_SCREEN_LEAD, hidden], orthonormal rows, directions in which hidden states are large; scale: [hidden], positive, a
 * column's: they decide how many logits are computed, never which are right. Tokens: 0 to vocab - 1. Sets with
 * the same head share its screen. Returns 0, or 1 when there is no memory. */
#define SM_SCREEN_LEAD 64
int32_t sm_decoder_screen_head(sm_decoder*, int32_t weights, int32_t vocab, const float* basis, const float* scale);
/* adapter: 0 to SM_MAX_ADAPTERS - 1; no parts take it away. For any thread, also while a step runs in which no row has
   this adapter. Returns 0, or 1 when there is no memory. */
int32_t sm_decoder_set_adapter(sm_decoder*, int32_t adapter, const sm_lora* parts, int32_t num_parts);
/* logits: [num_samples, head rows]; seconds: [5] embed, attend, mlp, norm, sample are added to, or null.
 * Returns 0, or 1 when there is no memory for the step. */
int32_t sm_decoder_step(sm_decoder*, int32_t weights, const sm_batch*, float* logits, double* seconds);
/* At most so many threads (1 or more) from the next step on; not while a step runs. */
void sm_limit_threads(sm_decoder*, int32_t most);
/* Reads the weights as a step of one row does, without computing: its time is the floor of decoding. Returns bytes. */
size_t sm_read_pass(sm_decoder*, int32_t weights);
/* One stage of one layer on rows that the caller holds, for a replay that looks at each outcome. A step is: embed; in each
 * layer norm, attend, norm, mlp; final norm of the sampled rows, head. These give its bits.
 * x: [num_rows, hidden], the residual stream; normed: the same shape. attend and mlp add to x; attend writes the KV.
 * Return 0, or 1 when there is no memory. */
enum { SM_NORM_ATTENTION = 0, SM_NORM_FFN = 1, SM_NORM_FINAL = 2 };
int32_t sm_stage_embed(sm_decoder*, int32_t weights, const sm_batch*, float* x);
int32_t sm_stage_norm(sm_decoder*, int32_t weights, int32_t layer, int32_t norm, int32_t num_rows, const float* x,
                      float* normed);
int32_t sm_stage_attend(sm_decoder*, int32_t weights, int32_t layer, const sm_batch*, const float* normed, float* x);
int32_t sm_stage_mlp(sm_decoder*, int32_t weights, int32_t layer, const sm_batch*, const float* normed, float* x);
/* logits: [num_rows, head rows] */
int32_t sm_stage_head(sm_decoder*, int32_t weights, int32_t num_rows, const float* normed, float* logits);

/* KV pages to and from the form in which they are stored; see page_io.h. format: as kv_format; bfloat16 pages can become
 * int8 and come back, int8 pages stay int8. Another thread may call these while a step runs on other pages.
 * to, from: [num_pages], sm_page_bytes each; are_finite: [num_pages] 1, or 0 for a page that must not be used: what was
 * written of it is nothing, and a page of the pool is cleared. */
size_t sm_page_bytes(const sm_decoder*, int32_t format);
void sm_export_pages(const sm_decoder*, const int32_t* pages, int32_t num_pages, int32_t format, uint8_t* const* to,
                     uint8_t* are_finite);
void sm_import_pages(sm_decoder*, const int32_t* pages, int32_t num_pages, int32_t format, const uint8_t* const* from,
                     uint8_t* are_finite);
/* Four CRC-32C over every fourth word of 8 bytes; sums: [4] */
void sm_checksum(const uint8_t* data, size_t num_bytes, uint32_t* sums);
/* bfloat16 numbers, a multiple of 32 of them, in fewer bytes without loss; see exponents.cpp. Returns the size, or 0 where
 * that is more than `room`. Unpacking returns 0, or 1 for what is not packed so. */
size_t sm_pack_bf16(const uint8_t* values, size_t num_values, uint8_t* out, size_t room);
int32_t sm_unpack_bf16(const uint8_t* packed, size_t num_bytes, size_t num_values, uint8_t* values);

void sm_decoder_zero_page(sm_decoder*, int32_t page);
void sm_decoder_copy_page(sm_decoder*, int32_t from, int32_t to);
size_t sm_decoder_kv_bytes(const sm_decoder*);
void sm_decoder_free(sm_decoder*);

/* Single operations, for tests. */
void sm_dequantize_row(const sm_matrix*, int32_t row, float* out);                          /* out: [cols] */
int32_t sm_matmul(const sm_matrix*, const float* x, int32_t num_rows, float* out);          /* x: [n, cols], out: [n, rows] */
int32_t sm_norm_quantize(const float* x, const float* weight, int32_t num_rows, int32_t cols, float eps,
                         int8_t* values, float* scales);                                    /* [n, cols], [n, cols / 32] */
/* q, out: [num_rows, heads, D]; k, v: [end, KV heads, D]; pages: [end / 16 up]; row i sees the tokens up to
 * end - num_rows + i, at most `window` of them, 0: all */
int32_t sm_attend(const float* q, const float* k, const float* v, int32_t num_rows, int32_t end, int32_t num_heads,
                  int32_t num_kv_heads, int32_t head_dim, int32_t window, int32_t kv_format, const int32_t* pages,
                  int32_t num_pages, float* out);

/* threads[i]: what a pool of `most` threads gives its i-th job, when jobs took ran_s seconds each, one after the other, and
 * waited stalled_s of them for threads that did not run, wherever more than one took part. */
void sm_thread_budget(int32_t most, const double* ran_s, const double* stalled_s, int32_t num_jobs, int32_t* threads);

#ifdef __cplusplus
}
#endif
