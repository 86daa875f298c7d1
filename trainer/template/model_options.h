// What a model is compiled for, beside the plan's own options.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "planner/options.h"
#include "ranks/world.h"

namespace tandem {

// By what devices' weights are set: as they are, by the time of a step, by memory.
enum class SliceBy { given, time, memory };

struct ModelOptions {
  CompileOptions plan;                       // mode, batch, devices, loss, optimizer, ...
  // Samples that a graph of the model has: those of a micro-batch, which only training has.
  std::int64_t micro_batch() const {
    return plan.mode == PlanMode::inference ? plan.batch : plan.batch / std::max<std::int64_t>(1, plan.parallel.micro_batches);
  }
  std::map<std::string, std::int64_t> dims;  // sizes of symbolic dimensions other than the batch
  // Dimensions of which each training batch takes the smallest size that holds its longest sample: their sizes, rising, as many of
  // each. A plan is made for every one. All else goes by the largest, as `dims` would give it.
  std::map<std::string, std::vector<std::int64_t>> buckets;
  std::int64_t max_loop_iterations = 0;     // ImportOptions::max_loop_iterations
  std::optional<bool> unbiased_variance;     // ImportOptions::unbiased_variance
  std::filesystem::path teacher;             // an ONNX file whose scores are learnt from, as plan.loss.distillation says; empty: none
  std::string init = "auto";                 // auto (keep, or draw the weights of an untrained template), keep, he-normal, glorot-uniform,
                                             // training-info (what the template's initialization computes; auto draws by it where there is
                                             // one)
  std::map<std::string, Tensor> states;      // first values of the optimizer's states, by name ("momentum/WEIGHT"); others begin at zero
  // the optimizer is that of the template's training_info (take_optimizer): save() writes its states there
  bool own_step = false;
  std::uint64_t seed = 1;                    // of initial values, order, augmentation and dropout
  World* world = nullptr;                    // the processes that share the devices; all of them call the model alike
  std::filesystem::path plans;               // rank 0's folder where the plans that are made are kept; empty: none
  bool resume = false;                       // take those kept there, where model, devices and options are the same
  // The first plan is that of this file (serialize), where it was made for these options and fits the devices here; it is read on every
  // rank. Empty: it is made. A file that does not fit is an error, or with `replan` the plan is made anew, and a note says why.
  std::filesystem::path plan_file;
  bool replan = false;
  std::string record;                        // PlanRecord::options of what make_plan makes; empty: its plans have no record
  std::map<std::string, int> batch_axes;     // ImportOptions::batch_axes
  // Values of inputs, the same in every batch: as ImportOptions::constants has them. What the data gives for inputs that hold no samples
  // stands apart: fit_constants puts it there, and the trained file does not say it.
  std::map<std::string, Tensor> constants, data_constants;
  std::vector<std::string> outputs;          // of an inference plan: values of the model that it gives in place of its outputs
  bool measures = false;                     // an inference plan that evaluates: outputs of inputs that no loss needs are left out
  std::vector<std::string> metrics{"auto"};  // that it gives; evaluate() makes another plan for others
};

}  // namespace tandem
