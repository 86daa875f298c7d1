/* The C API: an ONNX file as a model that is planned for devices, trained, measured, used and saved.
 *
 *   tandem_model* model = NULL;
 *   char* history = NULL;
 *   if (tandem_model_load("lenet.onnx", "{\"init\": \"he-normal\"}", &model) ||
 *       tandem_model_fit(model, NULL, NULL, "{\"data\": \"synthetic:digits\", \"epochs\": 3, \"lr\": 0.05}", NULL, &history) ||
 *       tandem_model_save(model, "trained.onnx", NULL))
 *     fprintf(stderr, "%s\n", tandem_last_error());
 *   tandem_free(history);
 *   tandem_model_free(model);
 *
 * Every function that can fail returns 0, or the code that the command line ends with (enum tandem_code); what went wrong says
 * tandem_last_error(). No exception leaves the library, and what an `out` points to is not written then. Texts are UTF-8 and end with a
 * zero. Those that a function gives by a char** are the caller's: tandem_free().
 *
 * Options are a JSON object, by the names that the command line and config.json have: {"batch-size": 64, "optimizer": "adamw",
 * "metrics": ["f1", "top5"], "parallel": {"data": 2}}; tandem_options_json() lists them. NULL and "" are no options.
 *
 * A handle is used by one thread at a time; tandem_model_stop() alone may be called while another function uses its model. Different
 * handles are free of each other. A handle that another one needs may be freed first: data and tensors are counted. */
#ifndef TANDEM_C_H
#define TANDEM_C_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TANDEM_ABI_VERSION 1 /* counts up where a program that was built before would no longer run */

enum tandem_code {
  TANDEM_OK = 0,
  TANDEM_INTERNAL = 1, /* a fault of the library's */
  TANDEM_USAGE = 2,
  TANDEM_MODEL = 3,
  TANDEM_DATA = 4,
  TANDEM_DEVICE = 5, /* or memory */
  TANDEM_COMMUNICATION = 6,
  TANDEM_IO = 7,
  TANDEM_DIVERGED = 8,
  TANDEM_STOPPED = 75 /* while it was planned: nothing was trained */
};

/* Element types: the numbers of ONNX's TensorProto.DataType. */
enum tandem_dtype {
  TANDEM_FLOAT32 = 1,
  TANDEM_UINT8 = 2,
  TANDEM_INT8 = 3,
  TANDEM_UINT16 = 4,
  TANDEM_INT16 = 5,
  TANDEM_INT32 = 6,
  TANDEM_INT64 = 7,
  TANDEM_BOOL = 9,
  TANDEM_FLOAT16 = 10,
  TANDEM_FLOAT64 = 11,
  TANDEM_UINT32 = 12,
  TANDEM_UINT64 = 13,
  TANDEM_BFLOAT16 = 16
};

typedef struct tandem_model tandem_model;
typedef struct tandem_data tandem_data;
typedef struct tandem_tensor tandem_tensor;
typedef struct tandem_autograd tandem_autograd;

/* ---- the library ---- */

const char* tandem_version(void);  /* "0.1.0" */
int tandem_abi_version(void);      /* TANDEM_ABI_VERSION of the library that is loaded */
/* Of this thread's last call that failed; "" and 0: none did. The text stands until the thread's next call that fails. */
const char* tandem_last_error(void);
int tandem_last_error_code(void);
void tandem_free(char* text);      /* NULL too */

/* A list of all options of a purpose ("train", "evaluate" or "predict"): name, type, default, help and more of each. */
int tandem_options_json(const char* purpose, char** json);
/* The devices of this machine: [{"device", "name", "memory"}], or "reason" in place of the last two. */
int tandem_devices_json(char** json);

/* ---- tensors: row-major values on the host ---- */

/* Zeros. dims: `rank` sizes, 0 or more. */
int tandem_tensor_new(int dtype, int rank, const int64_t* dims, tandem_tensor** out);
/* Memory of the caller's, which is not copied; `release` (NULL: none) is called with `context` when nothing reads it any more, by any
 * thread. `data` is aligned to its element's size. */
int tandem_tensor_view(int dtype, int rank, const int64_t* dims, const void* data, void (*release)(void* context), void* context,
                       tandem_tensor** out);
int tandem_tensor_dtype(const tandem_tensor* tensor);
int tandem_tensor_rank(const tandem_tensor* tensor);
const int64_t* tandem_tensor_dims(const tandem_tensor* tensor); /* as long as the tensor */
size_t tandem_tensor_bytes(const tandem_tensor* tensor);
const void* tandem_tensor_data(const tandem_tensor* tensor);
/* The same, to be written to; a view's or another's memory is copied first. NULL: it has failed. */
void* tandem_tensor_write(tandem_tensor* tensor);
void tandem_tensor_free(tandem_tensor* tensor);
/* DLPack: `managed` is a DLManagedTensor* (version 0) of a CPU's memory, row-major; the tensor takes it over and calls its deleter.
 * Fails (usage) where it is none of that; it is the caller's still, then. */
int tandem_tensor_from_dlpack(void* managed, tandem_tensor** out);
int tandem_tensor_to_dlpack(const tandem_tensor* tensor, void** managed); /* reads the tensor's memory; the caller calls its deleter */

/* ---- data ---- */

/* What the command line's --data takes: "idx:data/mnist", "csv:table.csv,y=price". It is read by what first needs it. */
int tandem_data_open(const char* spec, tandem_data** out);

enum tandem_role { TANDEM_INPUT = 0, TANDEM_LABEL = 1, TANDEM_WEIGHT = 2 /* of a sample in the loss, one number */ };
/* Samples in memory, along axis 0 of each tensor. names: of the model's inputs; of labels any. The tensors are read where they lie. */
int tandem_data_from_arrays(size_t count, const char* const* names, const int* roles, const tandem_tensor* const* tensors,
                            tandem_data** out);

/* One field of samples that a callback gives. */
typedef struct {
  const char* name;
  int role, dtype, rank;
  const int64_t* dims; /* of one sample */
} tandem_field;
/* Samples that `read` gives: it writes those of `samples` (numbers below `size`), one behind the other, to `to`. It is called by several
 * threads at once, and returns 0, or another number, which ends what asked (TANDEM_DATA). `release`: as of views. */
typedef int (*tandem_read)(void* context, size_t field, const int64_t* samples, size_t count, void* to);
int tandem_data_from_callback(const char* name, int64_t size, size_t fields, const tandem_field* field, tandem_read read,
                              void (*release)(void* context), void* context, tandem_data** out);
/* Samples that `next` gives one after another, as a generator does: how many there are need not be known, and they keep their order. It
 * writes the next `count` samples of every field, one behind the other, to that field's place `to[field]`, and returns 0, or another number
 * where there are no more, which ends what asked (TANDEM_DATA). It is called by one thread at a time, not always the same, and up to three
 * batches ahead. `size`: samples of an epoch. */
typedef int (*tandem_next)(void* context, size_t count, void* const* to);
int tandem_data_from_iterator(const char* name, int64_t size, size_t fields, const tandem_field* field, tandem_next next,
                              void (*release)(void* context), void* context, tandem_data** out);
void tandem_data_free(tandem_data* data);

/* ---- models ---- */

/* Options: which weights are trained, head, adapters (which are settled now), and any others, which later calls go by. */
int tandem_model_load(const char* path, const char* options, tandem_model** out);
void tandem_model_free(tandem_model* model);
int tandem_model_summary_json(const tandem_model* model, char** json);

/* Plans a training and opens the devices. With `train` the plan goes by what that data says (labels, sizes, class weights); without
 * (NULL) by what the model and the options say, and fit plans again. Fit does all this where nobody has. */
int tandem_model_compile(tandem_model* model, const tandem_data* train, const tandem_data* validation, const char* options);
/* "text", "summary", "json", "dot", "mermaid", "svg", "html", "perfetto" or "plan" (binary). Of a model that is not compiled: planned now,
 * and no device is opened. `size` (may be NULL): bytes. */
int tandem_model_plan(tandem_model* model, const char* format, const char* options, char** out, size_t* size);
int tandem_model_notes_json(const tandem_model* model, char** json);  /* what was assumed and found so far: a list of sentences */
int tandem_model_config_json(const tandem_model* model, char** json); /* what it is compiled for */

/* Reports; `bytes`: sizeof of the structure as the caller knows it. Numbers that were not measured are NaN. */
typedef struct {
  size_t bytes;
  int64_t epoch, step, steps, samples; /* from 1; steps: of the run, 0: not known */
  double loss, accuracy, learning_rate, seconds;
} tandem_step;
typedef struct {
  size_t bytes;
  int64_t epoch, epochs, step;
  double loss, accuracy, val_loss, val_accuracy, learning_rate, seconds;
  const char* json; /* all of it, with further metrics */
} tandem_epoch;
/* Called by the thread that called fit; each may be NULL. on_step and on_epoch return 0 to go on, or another number, which ends the
 * training behind this step as tandem_model_stop() does. on_step may not ask for the model's values; on_epoch may. */
typedef struct {
  size_t bytes; /* sizeof(tandem_callbacks) */
  void* context;
  int (*on_step)(void* context, const tandem_step* step);
  int (*on_epoch)(void* context, const tandem_epoch* epoch);
  void (*on_warning)(void* context, const char* warning);
  double (*learning_rate)(void* context, int64_t step, double scheduled); /* of a step, counted from 1: in place of the schedule's */
} tandem_callbacks;
/* Trains. `train`: NULL where the option data says it. `validation` (may be NULL) is measured after every epoch. The options come beside
 * those of load and compile; of a compiled model they are those of a fit alone (epochs, lr, lr-schedule, run-dir, metrics, ...).
 * `history` (may be NULL): {"epochs": [...], "steps", "stopped", ...}. A fit that was stopped returns 0 and says "stopped": true. */
int tandem_model_fit(tandem_model* model, const tandem_data* train, const tandem_data* validation, const char* options,
                     const tandem_callbacks* callbacks, char** history);
/* The model's weights as they are now. A model that is not compiled is compiled for this alone. Options: metrics, split, normalize, ...
 * `result`: {"loss", "accuracy", "samples", "metrics", "tables"}. `data`: NULL where the option data says it. */
int tandem_model_evaluate(tandem_model* model, const tandem_data* data, const char* options, char** result);
/* Outputs over all samples. `tensors`: room for `most`; `count`: how many there are, of which the first `most` are given. */
int tandem_model_predict(tandem_model* model, const tandem_data* data, const char* options, tandem_tensor** tensors, size_t most,
                         size_t* count);
/* Ends what the model does now (a fit behind its step; a plan; an evaluation), or, where it does nothing, the next fit before it begins.
 * From any thread, and from a signal handler. */
void tandem_model_stop(tandem_model* model);

/* One batch, values as the model takes them: its inputs in their order, then labels. The model is compiled where nobody has. */
int tandem_model_train_on_batch(tandem_model* model, const tandem_tensor* const* inputs, size_t count, double learning_rate,
                                tandem_step* report); /* learning_rate below 0: the optimizer's usual one. report may be NULL */
int tandem_model_test_on_batch(tandem_model* model, const tandem_tensor* const* inputs, size_t count, char** result);
int tandem_model_predict_on_batch(tandem_model* model, const tandem_tensor* const* inputs, size_t count, tandem_tensor** tensors,
                                  size_t most, size_t* outputs);
/* Of the loss over this batch with respect to one trained weight. Changes nothing. */
int tandem_model_gradient(tandem_model* model, const tandem_tensor* const* inputs, size_t count, const char* name, tandem_tensor** out);

int tandem_model_weights_json(const tandem_model* model, char** json); /* [{"name", "dtype", "dims"}] */
int tandem_model_get_weight(const tandem_model* model, const char* name, tandem_tensor** out);
int tandem_model_set_weight(tandem_model* model, const char* name, const tandem_tensor* values);

/* Writes the template with the present weights. Options: metadata, keep-external-layout, overwrite. */
int tandem_model_save(const tandem_model* model, const char* path, const char* options);
int tandem_model_save_adapter(const tandem_model* model, const char* path);
/* A new run folder from which the option resume goes on where the last fit has ended. */
int tandem_model_checkpoint(tandem_model* model, const char* folder);

/* ---- a training loop of the caller's, who computes the loss and updates the weights ---- */

enum tandem_mode {
  TANDEM_TRAIN = 0,  /* normalizations take the batch's statistics and move the running ones, Dropout drops */
  TANDEM_EVAL = 1,   /* neither */
  TANDEM_PREDICT = 2 /* as TANDEM_EVAL, of the forward pass alone */
};
/* Plans a forward and a backward pass for the option batch-size, and opens the devices. The passes have weights of their own, which begin
 * as the model's are now. Options come beside those of load and compile; those of a loss or an optimizer are not asked. Gradients are those
 * of the weights that a training would train (options freeze, unfreeze), and of `count` inputs of floats, by name (NULL, 0: of none). */
int tandem_autograd_new(tandem_model* model, int mode, const char* options, const char* const* inputs, size_t count,
                        tandem_autograd** out);
void tandem_autograd_free(tandem_autograd* passes);
/* The outputs of one batch: tensors as tandem_model_predict_on_batch() takes and gives them. `step`, from 1, says which random numbers are
 * drawn. What the backward pass needs of it stays until the next forward pass. */
int tandem_autograd_forward(tandem_autograd* passes, const tandem_tensor* const* inputs, size_t count, int64_t step,
                            tandem_tensor** tensors, size_t most, size_t* outputs);
/* Goes back from the forward pass right before, and uses up its values. gradients: of the caller's loss by each output, in the outputs'
 * order and of their types; NULL, and those beyond `count`: zeros. */
int tandem_autograd_backward(tandem_autograd* passes, const tandem_tensor* const* gradients, size_t count);
/* What the last backward pass gave, by the name of a weight or an input, in its shape. */
int tandem_autograd_gradient(const tandem_autograd* passes, const char* name, tandem_tensor** out);
/* The names of the weights that have a gradient, one by one: NULL behind the last. They stand as long as `passes`. */
const char* tandem_autograd_trained(const tandem_autograd* passes, size_t index);
/* Weights and running statistics. A backward pass needs a forward pass behind the last set_weight. */
int tandem_autograd_get_weight(const tandem_autograd* passes, const char* name, tandem_tensor** out);
int tandem_autograd_set_weight(tandem_autograd* passes, const char* name, const tandem_tensor* values);
int tandem_autograd_plan(const tandem_autograd* passes, const char* format, char** out, size_t* size); /* as tandem_model_plan() */
/* Writes the template with the passes' weights, as tandem_model_save(). No other thread may use the model meanwhile. */
int tandem_autograd_save(const tandem_autograd* passes, const char* path, const char* options);

#ifdef __cplusplus
}
#endif
#endif
