// The model that Python's Model stands on: options as JSON, data as arrays or as what the option `data` takes.
#pragma once
#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "options/options.h"
#include "python/src/arrays.h"
#include "python/src/interruption.h"
#include "trainer/model.h"
#include "trainer/prepare.h"

namespace tandem::python {

using Data = std::variant<std::string, Arrays, Batches*>;

class PyModel {
 public:
  PyModel(std::string path, const std::string& options);

  std::string name() const { return model_.file().name(); }
  std::vector<std::string> inputs() const;  // in the file's order
  std::vector<std::string> outputs() const { return model_.file().outputs(); }
  std::string summary(const std::string& options) const;

  // Fails as a run with these options would before it has seen data. What is planned next is planned by them.
  void check(const std::string& options);
  // Plans for training where nothing is planned yet. `format`: as in planner/plan/plan_formats.h.
  std::string plan(const std::string& options, const std::string& format);
  std::string config(const std::string& options);

  // `hooks` has on_step(report) and on_epoch(report), which return True to end the run.
  nb::dict fit(const std::string& options, const Data& data, const std::optional<Data>& validation, nb::object hooks);
  nb::dict evaluate(const std::string& options, const Data& data);
  nb::list predict(const std::string& options, const Data& data, const std::vector<std::string>& outputs);

  // One batch, as the model takes it but for its element types.
  nb::dict train_on_batch(const std::string& options, const Arrays& arrays, std::optional<double> rate);
  nb::dict test_on_batch(const std::string& options, const Arrays& arrays);
  nb::dict gradients(const std::string& options, const Arrays& arrays);

  nb::dict weights(const std::string& options);
  void set_weights(const std::string& options, const std::vector<std::pair<std::string, Array>>& values);
  nb::dict layer(const std::string& name);
  double rate() const { return rate_; }
  void set_rate(double rate);
  void save(const std::string& options, const std::string& path, bool overwrite, bool metadata);
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  class Busy;
  RunOptions asked(const Options& options, Purpose purpose) const;
  Prepared prepared(const Options& options, Purpose purpose, const Data* data, const Data* validation);
  std::unique_ptr<Dataset> dataset(const Data& data, const ModelOptions& options) const;
  Splits opened(const std::string& spec, const ModelOptions& options) const;
  Splits part_for(const Data& data) const;
  void compile(const Options& options, Prepared& run, Purpose purpose);
  void compile_for_batch(const std::string& options, const Arrays& arrays);
  std::vector<Tensor> tensors_of(const Arrays& arrays) const;
  template <class Work>
  auto without_lock(const Work& work);                    // which Ctrl-C ends
  void compile_for_training(const std::string& options);  // where nothing is compiled yet

  const std::string path_;
  Model model_;
  std::optional<Purpose> purpose_;  // what it is compiled for; absent: nothing yet, or for options that are no longer those
  std::string key_;                 // what it was compiled of
  ModelOptions settled_;
  DataRequest request_;
  EvaluateOptions measuring_;
  double rate_ = 0;            // of the optimizer, where no schedule changes it
  FitOptions* fit_ = nullptr;  // of the training under way
  std::vector<std::string> notes_;
  std::optional<std::thread::id> user_;
  std::optional<Interruption> interruption_;  // of the call under way
  bool training_ = false;
};

void bind_model(nb::module_& module);

}  // namespace tandem::python
