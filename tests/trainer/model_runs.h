// Trainings of the bundled templates by the C++ API on the CPU backend.
#pragma once
#include "trainer/model.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/file.h"
#include "kernels/cpu/backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/checkpoint.h"

namespace tandem::model_tests {

inline const Backend* const backends[] = {&cpu_backend()};

inline std::string template_path(const std::string& name) {
  return std::string(TANDEM_SOURCE_DIR) + "/models/" + name + ".onnx";
}

inline ModelOptions options(std::int64_t batch, const std::string& devices = "cpu", const std::string& weights = "") {
  ModelOptions o;
  o.plan.batch = batch;
  o.plan.devices = parse_devices(devices, weights);
  o.plan.optimizer.momentum = 0.9;
  o.init = "he-normal";
  return o;
}

inline Model compiled(const std::string& name, const ModelOptions& o) {
  Model model = Model::load(template_path(name));
  model.compile(o, backends);
  return model;
}

inline Splits digits(const std::string& spec = "synthetic:digits,train=200,test=60") {
  return open_data(spec);
}

// Losses of every step and the final parameters.
struct Trained {
  std::vector<double> losses;
  std::vector<NamedTensor> parameters;
  History history;
};
inline Trained train(const ModelOptions& o, FitOptions fit, const Dataset& data) {
  Trained run;
  Model model = compiled("mlp", o);
  fit.learning_rate = 0.02;
  const auto given = fit.callbacks.on_step;
  fit.callbacks.on_step = [&](const StepReport& r) {
    run.losses.push_back(r.loss);
    if (given) given(r);
  };
  run.history = model.fit(data, fit);
  run.parameters = model.parameters();
  return run;
}

inline bool same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  return std::ranges::equal(a, b, [](const NamedTensor& x, const NamedTensor& y) {
    return x.name == y.name && std::ranges::equal(x.tensor.bytes(), y.tensor.bytes());
  });
}

}  // namespace tandem::model_tests
