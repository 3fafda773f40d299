/* Choosing tokens from logits: part of the C interface of kernels.h, independent of the decoder.
 *
 * Everything is computed row by row in a fixed order, so a choice does not depend on what is chosen beside it.
 */
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the token after one position is chosen; services/engine/sampler.py has the definition. */
typedef struct sm_draw {
  const float* logits;    /* [V] */
  const uint8_t* allowed; /* bit t % 8 of byte t / 8: token t may be chosen; null: all */
  int32_t num_allowed;    /* tokens that `allowed` speaks of; those beyond may not be chosen */
  int32_t is_modified;    /* -inf stands for a token that may not be chosen; otherwise it is a fault */
  int32_t top_k;          /* 0: all */
  double temperature;     /* 0: the likeliest token, the lowest of equals */
  double top_p, min_p;
  uint64_t noise_key;
} sm_draw;

enum { SM_NOT_FINITE = -1, SM_NOTHING_ALLOWED = -2, SM_NO_MEMORY = -3 };

/* tokens: [num_draws], each a token or one of the above. */
void sm_draw_tokens(const sm_draw*, int32_t num_draws, int32_t vocab_size, int32_t* tokens);

/* Log-softmax at `token`, and at the num_top likeliest tokens, best first, the lower of equals first. Returns 0, or
 * SM_NO_MEMORY. */
int32_t sm_logprobs(const float* logits, int32_t vocab_size, int32_t token, int32_t num_top, double* logprob,
                    int32_t* top_tokens, double* top_logprobs);

#ifdef __cplusplus
}
#endif
