/* The C API of the runtime alone: it runs plans that `tandem pack` has made, on CPUs, without planner and ONNX. In libtandem_runtime.so.
 *
 *   tandem_runtime* run = NULL;
 *   if (tandem_runtime_open("packed/model.plan", "packed/weights.safetensors", &run) != TANDEM_RUNTIME_OK)
 *     fprintf(stderr, "%s\n", tandem_runtime_message());
 *   const void* batch[] = {images, labels};
 *   double loss = 0;
 *   tandem_runtime_step(run, batch, NULL, NULL, &loss);
 *   tandem_runtime_save(run, "packed/weights.safetensors", 0);
 *   tandem_runtime_close(run);
 *
 * Every function that returns a code returns TANDEM_RUNTIME_OK or why it failed; tandem_runtime_message() then says where and what. A
 * tandem_runtime is used by one thread at a time; different ones are independent. Memory that a function points to lives until
 * tandem_runtime_close. */
#ifndef TANDEM_RUNTIME_H
#define TANDEM_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The exit codes of the program. */
enum tandem_runtime_code {
  TANDEM_RUNTIME_OK = 0,
  TANDEM_RUNTIME_USAGE = 2,  /* a null pointer, a number out of range */
  TANDEM_RUNTIME_MODEL = 3,  /* the plan file is damaged, of another version, or does not say what it needs */
  TANDEM_RUNTIME_DATA = 4,   /* the weights are not those of the plan */
  TANDEM_RUNTIME_DEVICE = 5, /* the processor, its memory or the kernels are not those of the plan */
  TANDEM_RUNTIME_IO = 7      /* a file cannot be read or written */
};

/* What a value is. Its elements lie row-major. */
typedef struct tandem_runtime_value {
  const char* name;
  int dtype;           /* by ONNX's numbers (TensorProto.DataType): 1 float32, 7 int64, 2 uint8 */
  int rank;
  const int64_t* dims; /* `rank` numbers */
  int64_t bytes;       /* of all its values */
} tandem_runtime_value;

typedef struct tandem_runtime tandem_runtime;

/* Why the last function of this thread failed; "" where it did not. */
const char* tandem_runtime_message(void);

/* Opens a plan and a file of weights (safetensors, by the template's names) and makes the plan's kernels. The plan may be one of training
 * or of prediction, on one or several CPU devices of this process. *run is null where it fails. */
int tandem_runtime_open(const char* plan, const char* weights, tandem_runtime** run);
void tandem_runtime_close(tandem_runtime* run); /* null: nothing */

/* What a step is given: the model's inputs, then labels and the weights of samples where the plan has some, each for a whole batch. And
 * what a step gives: a training the loss and what it counts, a prediction the model's outputs. `index` counts from 0. */
int tandem_runtime_input_count(const tandem_runtime* run);
int tandem_runtime_output_count(const tandem_runtime* run);
int tandem_runtime_weight_count(const tandem_runtime* run);
int tandem_runtime_input(const tandem_runtime* run, int index, tandem_runtime_value* input);
int tandem_runtime_output(const tandem_runtime* run, int index, tandem_runtime_value* output);
int tandem_runtime_weight(const tandem_runtime* run, int index, tandem_runtime_value* weight);

/* What changes from step to step and is no data. */
typedef struct tandem_runtime_numbers {
  double learning_rate; /* default the plan's */
  double epoch;         /* from 0, with its fraction; groups of parameters may begin later */
  int64_t first_sample; /* of predictions that draw random numbers: the number of the batch's first sample; 0 in training */
} tandem_runtime_numbers;
int tandem_runtime_default_numbers(const tandem_runtime* run, tandem_runtime_numbers* numbers);

/* Runs one step on the caller's memory: inputs[i] holds the values of tandem_runtime_input(run, i), outputs[i] has room for those of
 * tandem_runtime_output(run, i). outputs, each of them, numbers and loss may be null. Class indices and token numbers must be in the
 * model's range: nobody looks at them. A loss that is not finite is no failure. After a failed step the run can only be closed. */
int tandem_runtime_step(tandem_runtime* run, const void* const* inputs, void* const* outputs, const tandem_runtime_numbers* numbers,
                        double* loss);
int64_t tandem_runtime_steps(const tandem_runtime* run); /* so far, those before a saved state included */

/* One weight's values now, in the template's shape; `bytes` must be the weight's. */
int tandem_runtime_read_weight(tandem_runtime* run, int index, void* values, int64_t bytes);
/* Replaces the file at once by the present weights. With `state` not 0 the optimizer's states and the number of steps are there, too:
 * tandem_runtime_open goes on from them. */
int tandem_runtime_save(tandem_runtime* run, const char* weights, int state);

/* Bytes that the plan takes on all its devices together. */
int64_t tandem_runtime_memory(const tandem_runtime* run);

#ifdef __cplusplus
}
#endif
#endif
