#include "python/src/reports.h"

#include <cmath>

#include "python/src/arrays.h"

namespace tandem::python {
namespace {

void put(nb::dict& dict, const char* name, double value) {
  if (!std::isnan(value)) dict[name] = value;
}
void put(nb::dict& dict, const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) put(dict, name.c_str(), value);
}

}  // namespace

nb::dict dict_of(const StepReport& r) {
  nb::dict dict;
  dict["epoch"] = r.epoch;
  dict["step"] = r.step;
  dict["steps"] = r.steps;
  dict["size"] = r.samples;
  put(dict, "loss", r.loss);
  put(dict, "accuracy", r.accuracy);
  put(dict, "learning_rate", r.learning_rate);
  put(dict, r.metrics);
  return dict;
}

nb::dict dict_of(const EpochReport& r) {
  nb::dict dict;
  dict["epoch"] = r.epoch;
  dict["epochs"] = r.epochs;
  dict["step"] = r.step;
  put(dict, "loss", r.loss);
  put(dict, "accuracy", r.accuracy);
  put(dict, "val_loss", r.val_loss);
  put(dict, "val_accuracy", r.val_accuracy);
  put(dict, r.metrics);
  put(dict, "learning_rate", r.learning_rate);
  put(dict, "seconds", r.seconds);
  put(dict, "samples_per_second", r.samples_per_second);
  return dict;
}

nb::dict dict_of(const Evaluation& e) {
  nb::dict dict;
  put(dict, "loss", e.loss);
  put(dict, "accuracy", e.accuracy);
  put(dict, e.metrics);
  return dict;
}

nb::dict dict_of(std::vector<NamedTensor> tensors) {
  nb::dict dict;
  for (NamedTensor& t : tensors) dict[t.name.c_str()] = array_of(std::move(t.tensor));
  return dict;
}

}  // namespace tandem::python
