// Options by name, as the command line, config.json and --config's file have them, for who uses the library:
//
//   tandem::Options options = tandem::Options::parse(R"({"batch-size": 64, "optimizer": "adamw", "lr": 1e-3, "data": "idx:data/mnist"})");
//   options.set("devices", "cpu:0-1");
//   tandem::Model model = tandem::Model::load("lenet.onnx", options.weights());
//   const tandem::Prepared run = tandem::prepare(model, options.run(model, backends), backends);
//   model.compile(run.options, backends);
//   model.fit(*run.data.train, run.fit);
//
// A name may be written with - or _, and as the API's own field ("learning_rate" for "lr"). A value is what the command line takes as text,
// or a number, a truth value, a list or an object: {"metrics": ["f1", "top5"], "parallel": {"data": 2}, "place": {"fc*": "cpu:1"}}.
// null takes an option back. Messages name the key: "option batch_size 0: expected at least 1".
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "trainer/prepare.h"

namespace tandem {

class OptionValues;

class Options {
 public:
  explicit Options(Purpose purpose = Purpose::train);
  // A JSON object. Fails (usage) where it is none, and as set() does.
  static Options parse(std::string_view json, Purpose purpose = Purpose::train);
  ~Options();
  Options(const Options& other);
  Options& operator=(const Options& other);
  Options(Options&&) noexcept;
  Options& operator=(Options&&) noexcept;

  // Fails (usage) on an unknown name, naming the nearest, on one that is the command line's alone, and on what is no value of the option.
  void set(std::string_view name, const Json& value);
  void set(const Json& object);  // all its members
  bool given(std::string_view name) const;
  Options as(Purpose purpose) const;  // those that another purpose has, too
  Json values() const;                // those that were set, by the names that config.json has

  // Which weights are trained, head, adapters: of Model::load. Fails (usage) where options contradict each other.
  WeightOptions weights() const;
  // All else: of prepare(). Devices that are left open are the GPUs that `backends` have, else the CPU. No run folder is made where none
  // is named. Fails (usage) where options contradict each other, or the model.
  RunOptions run(const Model& model, Backends backends, World* world = nullptr) const;

 private:
  Purpose purpose_;
  std::unique_ptr<OptionValues> values_;
};

// What there is: [{"name", "field", "group", "type" (switch, integer, number, text, list), "value" (a placeholder), "default", "help"}].
Json describe_options(Purpose purpose = Purpose::train);

}  // namespace tandem
