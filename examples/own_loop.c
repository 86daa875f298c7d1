/* A training loop of one's own: tandem computes outputs and gradients by a plan, this program the loss and the new weights.
 *
 *   own_loop mlp.onnx trained.onnx [STEPS [BATCHES.bin]]
 *
 * The model takes pictures of 28 x 28 numbers and gives scores of 10 classes. BATCHES.bin holds, for each batch of 8, its pictures
 * (float32), then their classes (int64); without it pictures are drawn, with a bright stripe that says the class. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tandem/c.h>

enum { batch = 8, pixels = 28 * 28, classes = 10, most_weights = 64 };

static tandem_model* model;
static tandem_autograd* passes;
static tandem_tensor* weights[most_weights]; /* their values here, which the passes are given after each step */
static size_t weight_count;

static float images[batch * pixels];
static int64_t labels[batch];

static int failed(void) {
  fprintf(stderr, "own_loop: %s\n", tandem_last_error());
  return tandem_last_error_code();
}

static int next_batch(FILE* file) {
  static uint32_t random = 7;
  int i, p;
  if (file) return fread(images, sizeof images, 1, file) == 1 && fread(labels, sizeof labels, 1, file) == 1;
  for (i = 0; i < batch; ++i) {
    labels[i] = (int64_t)((random = random * 1664525U + 1013904223U) >> 16) % classes;
    for (p = 0; p < pixels; ++p) {
      random = random * 1664525U + 1013904223U;
      images[i * pixels + p] = (float)(random >> 16) / 131072.0F + (p / 28 / 3 == labels[i] ? 0.5F : 0.0F);
    }
  }
  return 1;
}

/* The mean cross entropy of softmax(scores), and its gradient by the scores: (softmax(scores) - one of the label) / batch. */
static double cross_entropy(const float* scores, float* gradient) {
  double loss = 0;
  int i, c;
  for (i = 0; i < batch; ++i, scores += classes, gradient += classes) {
    double most = scores[0], sum = 0;
    for (c = 1; c < classes; ++c)
      if (scores[c] > most) most = scores[c];
    for (c = 0; c < classes; ++c) sum += exp(scores[c] - most);
    for (c = 0; c < classes; ++c) gradient[c] = (float)((exp(scores[c] - most) / sum - (c == labels[i])) / batch);
    loss += (log(sum) + most - scores[labels[i]]) / batch;
  }
  return loss;
}

/* w -= rate * dw, of every weight. */
static int update(float rate) {
  size_t i, k;
  for (i = 0; i < weight_count; ++i) {
    const char* const name = tandem_autograd_trained(passes, i);
    tandem_tensor* gradient = NULL;
    float* const w = tandem_tensor_write(weights[i]);
    const float* g;
    if (!w || tandem_autograd_gradient(passes, name, &gradient)) return failed();
    g = tandem_tensor_data(gradient);
    for (k = 0; k < tandem_tensor_bytes(gradient) / sizeof(float); ++k) w[k] -= rate * g[k];
    tandem_tensor_free(gradient);
    if (tandem_autograd_set_weight(passes, name, weights[i])) return failed();
  }
  return 0;
}

static int step(int64_t number, const tandem_tensor* input) {
  static float gradient[batch * classes];
  const int64_t dims[2] = {batch, classes};
  tandem_tensor *scores = NULL, *of_scores = NULL;
  size_t outputs = 0;
  int code;
  if (tandem_autograd_forward(passes, &input, 1, number, &scores, 1, &outputs)) return failed();
  printf("step %d: loss %.6f\n", (int)number, cross_entropy(tandem_tensor_data(scores), gradient));
  tandem_tensor_free(scores);
  if (tandem_tensor_view(TANDEM_FLOAT32, 2, dims, gradient, NULL, NULL, &of_scores)) return failed();
  code = tandem_autograd_backward(passes, (const tandem_tensor* const*)&of_scores, 1);
  tandem_tensor_free(of_scores);
  return code ? failed() : update(0.05F);
}

static int train(int64_t steps, FILE* file) {
  const int64_t dims[4] = {batch, 1, 28, 28};
  tandem_tensor* input = NULL;
  int64_t number;
  int code = 0;
  for (; weight_count < most_weights && tandem_autograd_trained(passes, weight_count); ++weight_count)
    if (tandem_autograd_get_weight(passes, tandem_autograd_trained(passes, weight_count), &weights[weight_count])) return failed();
  if (tandem_tensor_view(TANDEM_FLOAT32, 4, dims, images, NULL, NULL, &input)) return failed(); /* it is read where it lies */
  for (number = 1; number <= steps && !code && next_batch(file); ++number) code = step(number, input);
  tandem_tensor_free(input);
  return code;
}

int main(int argc, char** argv) {
  FILE* const file = argc > 4 ? fopen(argv[4], "rb") : NULL;
  size_t i;
  int code;
  if (argc < 3) return fprintf(stderr, "usage: own_loop MODEL.onnx OUTPUT.onnx [STEPS [BATCHES.bin]]\n"), TANDEM_USAGE;
  if (argc > 4 && !file) return perror(argv[4]), TANDEM_IO;
  if (tandem_model_load(argv[1], "{\"init\": \"he-normal\", \"autotune\": false}", &model)) return failed();
  code = tandem_autograd_new(model, TANDEM_TRAIN, "{\"batch-size\": 8, \"devices\": \"cpu:0-1\"}", NULL, 0, &passes) ? failed() : 0;
  tandem_model_free(model); /* the passes need it no more */
  if (!code) code = train(argc > 3 ? atoi(argv[3]) : 20, file);
  if (!code && tandem_autograd_save(passes, argv[2], NULL)) code = failed();
  for (i = 0; i < weight_count; ++i) tandem_tensor_free(weights[i]);
  tandem_autograd_free(passes);
  if (file) fclose(file);
  return code;
}
