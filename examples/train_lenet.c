/* The same as train_lenet.cpp in C, with callbacks; Ctrl-C ends the training behind its step, and what was trained is written:
 * train_lenet_c lenet.onnx trained.onnx [DATA] */
#include <signal.h>
#include <stdio.h>
#include <tandem/c.h>

static tandem_model* model;
static tandem_data* digits;

static void stop(int signal_number) {
  (void)signal_number;
  tandem_model_stop(model);
}

static int on_epoch(void* context, const tandem_epoch* epoch) {
  (void)context;
  printf("epoch %d of %d: loss %.4f, accuracy on held-out digits %.1f%%\n", (int)epoch->epoch, (int)epoch->epochs, epoch->loss,
         100 * epoch->val_accuracy);
  return 0; /* another number ends the training */
}

static int failed(void) {
  const int code = tandem_last_error_code(); /* as the command line would end */
  fprintf(stderr, "train_lenet: %s\n", tandem_last_error());
  tandem_data_free(digits);
  tandem_model_free(model);
  return code;
}

/* The class of one picture that this program brings. */
static int classify(void) {
  static float pixels[28 * 28]; /* an empty one */
  const int64_t dims[4] = {1, 1, 28, 28};
  tandem_tensor *image = NULL, *scores = NULL;
  size_t outputs = 0;
  int best = 0, c;
  if (tandem_tensor_view(TANDEM_FLOAT32, 4, dims, pixels, NULL, NULL, &image)) return -1;
  if (tandem_model_predict_on_batch(model, (const tandem_tensor* const*)&image, 1, &scores, 1, &outputs)) best = -1;
  if (best == 0) {
    const float* score = tandem_tensor_data(scores);
    for (c = 1; c < (int)tandem_tensor_dims(scores)[1]; ++c)
      if (score[c] > score[best]) best = c;
  }
  tandem_tensor_free(scores);
  tandem_tensor_free(image);
  return best;
}

int main(int argc, char** argv) {
  const char* const options =
      "{\"init\": \"he-normal\", \"batch-size\": 64, \"devices\": \"cpu:0-1\", \"momentum\": 0.9, \"lr\": 0.05, \"epochs\": 2}";
  tandem_callbacks callbacks = {sizeof callbacks, NULL, NULL, on_epoch, NULL, NULL};
  char* history = NULL;
  int picture = 0;
  if (argc != 3 && argc != 4) {
    fprintf(stderr, "usage: train_lenet_c MODEL.onnx OUTPUT.onnx [DATA]\n");
    return TANDEM_USAGE;
  }
  if (tandem_model_load(argv[1], options, &model)) return failed();
  signal(SIGINT, stop);
  if (tandem_data_open(argc == 4 ? argv[3] : "synthetic:digits,train=4000,test=1000", &digits)) return failed();
  if (tandem_model_fit(model, digits, NULL, NULL, &callbacks, &history)) return failed();
  printf("%s\n", history);
  tandem_free(history);
  picture = classify();
  if (picture < 0) return failed();
  printf("an empty picture looks like a %d\n", picture);
  if (tandem_model_save(model, argv[2], NULL)) return failed();
  tandem_data_free(digits);
  tandem_model_free(model);
  return 0;
}
