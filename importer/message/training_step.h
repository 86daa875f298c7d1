// The training step that a template brings along (ONNX's TrainingInfoProto), as far as it is one that tandem plans: a loss of which
// Gradients are taken, and an optimizer's operator for each weight, or plain arithmetic w - r·g.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace tandem {

struct TrainingStep {
  struct Trained {
    std::string weight;
    double weight_decay = 0, rate = 1;  // times the learning rate
  };

  std::string loss;     // as LossOptions::name has it; "output": the algorithm computes it, on `loss_on`
  std::string loss_on;  // the value of the model, or of the algorithm, that the loss is computed on
  std::string label;    // the algorithm's input
  std::optional<TensorType> label_sample;  // one sample's labels; of a step that is to be written
  std::vector<std::string> inputs;         // of the model; the same
  bool class_axis = false;  // classes stand on axis 1
  std::optional<std::int64_t> ignore_index;
  bool mean_of_samples = true;  // of "output": false where it is not known to be, so that several devices could not share a batch

  std::string optimizer;                  // as OptimizerOptions::name
  std::map<std::string, double> numbers;  // of the optimizer, by OptimizerOptions' names; flags are 1
  double learning_rate = 0;
  std::int64_t steps_before = 0;          // the states' first step is the one behind these; -1: Adam's first is not corrected
  std::vector<Trained> trained;           // what is not named keeps its values
  std::map<std::string, Tensor> states;   // "momentum/WEIGHT"; those that are not named begin at zero
  std::map<std::string, std::string> variables;  // of a file: which initializer of the algorithm holds a state
  std::vector<std::string> counters;             // and which the number of the step
  std::string line;                       // what was found, for the user
};

}  // namespace tandem
