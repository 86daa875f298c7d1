// What stands behind the handles of tandem/c.h.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "options/flag.h"
#include "options/options.h"
#include "planner/plan/plan_formats.h"
#include "tandem/c.h"
#include "trainer/autograd.h"
#include "trainer/prepare.h"

struct tandem_tensor {
  tandem::Tensor values;
};

// A data set, or where one is read from.
struct tandem_data {
  std::string spec;
  std::shared_ptr<const tandem::Dataset> set;
};

struct tandem_model {
  enum class State { untrained, compiled, compiled_for_data };  // for a training; for_data: as what it trains on says

  tandem_model(tandem::Model m, tandem::Options o)
      : shared(std::make_shared<tandem::Model>(std::move(m))), model(*shared), options(std::move(o)) {}
  const std::shared_ptr<tandem::Model> shared;  // with passes that were planned of it
  tandem::Model& model;
  tandem::Options options;            // those of load and compile
  tandem::EvaluateOptions measuring;  // how samples are prepared, as in training
  State state = State::untrained;
  std::atomic<bool> stop = false;
  std::vector<std::string> notes;
  std::shared_ptr<const tandem::Prepared> run;  // the last fit, and what it was measured on where its own data knows nothing of it
  std::shared_ptr<const tandem::Dataset> validation;
};

// Passes, the model whose file they were planned of with its inputs' names, and what the last backward pass gave.
struct tandem_autograd {
  std::shared_ptr<const tandem::Model> model;
  std::vector<std::string> inputs;
  tandem::Autograd passes;
  std::vector<tandem::NamedTensor> gradients;
};

namespace tandem::c {

// Does `work`. Returns 0, or the code of what it has thrown, which tandem_last_error() says then.
template <class Work>
int guarded(const Work& work) noexcept;
int failed() noexcept;  // of the exception that is being handled

template <class Work>
int guarded(const Work& work) noexcept {
  try {
    work();
    return TANDEM_OK;
  } catch (...) {
    return failed();
  }
}

// Fails (usage) where an argument is null.
template <class T>
T& need(T* argument, std::string_view name) {
  if (!argument) fail(ExitCode::usage, "the argument ", name, " is null");
  return *argument;
}
char* copy_of(std::string_view text);  // malloc's: tandem_free()
inline void give(char** out, std::string_view text) {
  need(out, "out") = copy_of(text);
}

TensorType type_of(int dtype, int rank, const std::int64_t* dims);  // fails (usage) on others than tandem_dtype has

// A data set that several own.
std::unique_ptr<Dataset> shared(std::shared_ptr<const Dataset> data);

// tandem_model_stop() ends what is done while it lives, and nothing behind it.
class Working {
 public:
  explicit Working(tandem_model& model) : model_(model) {}
  ~Working() { model_.stop = false; }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  tandem_model& model_;
};

Json parsed(const char* options);  // an empty object where there are none
// Fails (usage) where one is none of the rows.
void check_among(const Options& options, std::span<const FlagRow* const> rows, std::string_view when);
Prepared prepared(tandem_model& model, RunOptions run);  // its notes become the model's
void compile(tandem_model& model, ModelOptions& options);
void compile_without_data(tandem_model& model);  // where nobody has compiled it
const PlanFormat& format_of(const char* name);   // fails (usage) on another
// What is said when a file is written; metadata: whether to say there how its data was prepared.
SaveOptions save_options(const Json& options, bool& metadata);
std::vector<Tensor> tensors_of(const tandem_tensor* const* inputs, std::size_t count);
// The first `most` of them to `out`; `count`: how many there are.
void give_tensors(std::vector<Tensor> all, tandem_tensor** out, std::size_t most, std::size_t* count);
// validation of which the run's own data knows nothing is left to the caller.
void give_training_data(RunOptions& run, const tandem_data* train, const tandem_data* validation);

}  // namespace tandem::c
