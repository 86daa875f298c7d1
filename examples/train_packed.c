/* Trains a packed model on one batch after the other with libtandem_runtime alone:
 *
 *   tandem pack lenet.onnx --batch-size 32 --output lenet.packed
 *   train_packed lenet.packed batches.bin 20
 *   tandem unpack lenet.packed --output trained.onnx
 *
 * batches.bin holds, for each batch, the values of all inputs in the plan's order: for a classifier images, then class numbers. It is read
 * again from its beginning where it ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tandem/runtime.h"

#define MOST_INPUTS 16

static int failed(int code) {
  fprintf(stderr, "train_packed: %s\n", tandem_runtime_message());
  return code;
}

/* Reads the next batch; 0 where the file has none. */
static int read_batch(FILE* file, tandem_runtime* run, void** inputs) {
  for (int again = 0; again < 2; ++again) {
    int i = 0;
    for (tandem_runtime_value t; i < tandem_runtime_input_count(run) && tandem_runtime_input(run, i, &t) == TANDEM_RUNTIME_OK; ++i)
      if (fread(inputs[i], 1, (size_t)t.bytes, file) != (size_t)t.bytes) break;
    if (i == tandem_runtime_input_count(run)) return 1;
    rewind(file);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: train_packed FOLDER BATCHES STEPS\n"), TANDEM_RUNTIME_USAGE;
  char plan[4096], weights[4096];
  snprintf(plan, sizeof plan, "%s/model.plan", argv[1]);
  snprintf(weights, sizeof weights, "%s/weights.safetensors", argv[1]);
  tandem_runtime* run = NULL;
  int code = tandem_runtime_open(plan, weights, &run);
  if (code != TANDEM_RUNTIME_OK) return failed(code);

  void* inputs[MOST_INPUTS] = {0};
  if (tandem_runtime_input_count(run) > MOST_INPUTS) return fprintf(stderr, "too many inputs\n"), TANDEM_RUNTIME_USAGE;
  for (int i = 0; i < tandem_runtime_input_count(run); ++i) {
    tandem_runtime_value t;
    tandem_runtime_input(run, i, &t);
    inputs[i] = malloc((size_t)t.bytes);
    printf("input %s: %lld bytes a batch\n", t.name, (long long)t.bytes);
  }
  FILE* file = fopen(argv[2], "rb");
  if (!file) return perror(argv[2]), TANDEM_RUNTIME_IO;
  for (int step = 1; code == TANDEM_RUNTIME_OK && step <= atoi(argv[3]); ++step) {
    double loss = 0;
    if (!read_batch(file, run, inputs)) return fprintf(stderr, "%s holds no whole batch\n", argv[2]), TANDEM_RUNTIME_DATA;
    code = tandem_runtime_step(run, (const void* const*)inputs, NULL, NULL, &loss);
    if (code == TANDEM_RUNTIME_OK) printf("step %d: loss %.6f\n", step, loss);
  }
  if (code == TANDEM_RUNTIME_OK) code = tandem_runtime_save(run, weights, 1);
  if (code != TANDEM_RUNTIME_OK) return failed(code);
  printf("%lld bytes on the devices\n", (long long)tandem_runtime_memory(run));
  fclose(file);
  for (int i = 0; i < MOST_INPUTS; ++i) free(inputs[i]);
  tandem_runtime_close(run);
  return 0;
}
