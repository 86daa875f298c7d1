// Options of the optimizer, of what is done to gradients, of the learning rate and of averages.
#pragma once
#include "options/flag.h"
#include "planner/options.h"
#include "trainer/model.h"
#include "trainer/schedule.h"

namespace tandem {

std::string names_of_optimizers(const FlagRow&);
std::string takers_of(const FlagRow&);  // the optimizers that have a number or switch of this name
std::string names_of_schedules(const FlagRow&);
OptimizerOptions read_optimizer(const FlagRow&, const std::string& text);  // as the named one has them
Schedule read_schedule(const FlagRow&, const std::string& text);
RateTestOptions read_rate_range(const FlagRow&, const std::string& text);

// Of commands that plan a training.
struct OptimizerFlags : FlagGroup {
  constexpr OptimizerFlags() : FlagGroup("optimizer and learning rate") {}
  // What only some optimizers have, with the field that it sets.
  struct Number : Flag<std::optional<double>> {
    constexpr Number(FlagGroup& group, std::string_view name, double OptimizerOptions::*field, std::string_view text)
        : Flag(group, name, "X", "", text, {.names = takers_of}), sets(field) {}
    double OptimizerOptions::*sets;
  };
  struct Choice : Switch {
    constexpr Choice(FlagGroup& group, std::string_view name, bool OptimizerOptions::*field, std::string_view text)
        : Switch(group, name, off, text, {.names = takers_of}), sets(field) {}
    bool OptimizerOptions::*sets;
  };

  Flag<OptimizerOptions> optimizer{*this, "optimizer", "NAME", "sgd", "{}; as Keras and PyTorch write them, too", read_optimizer, {.names = names_of_optimizers}};
  Flag<std::optional<double>> lr{*this, "lr", "X", "", "learning rate (default the optimizer's usual one)", {.field = "learning_rate"}};
  Flag<std::optional<double>> weight_decay{*this, "weight-decay", "X", "", "weight decay (default 0, adamw and lamb 0.01, lars 0.0001); decoupled with adamw, lion and lamb"};
  Number numbers[8] = {
      {*this, "momentum", &OptimizerOptions::momentum, "{}: momentum (default 0; lars 0.9)"},
      {*this, "dampening", &OptimizerOptions::dampening, "{}: what of a gradient does not go into the momentum"},
      {*this, "beta1", &OptimizerOptions::beta1, "{}: decay of the first moment (default 0.9)"},
      {*this, "beta2", &OptimizerOptions::beta2, "{}: decay of the second moment (default 0.999; lion 0.99)"},
      {*this, "rho", &OptimizerOptions::rho, "{}: decay of the mean square (default 0.9)"},
      {*this, "epsilon", &OptimizerOptions::epsilon, "{}: added to the denominator"},
      {*this, "rate-decay", &OptimizerOptions::rate_decay, "{}: the rate is divided by 1 + X for each step before"},
      {*this, "trust", &OptimizerOptions::trust, "{}: trust coefficient (default 0.001)"},
  };
  Choice choices[5] = {
      {*this, "nesterov", &OptimizerOptions::nesterov, "{}: Nesterov's momentum"},
      {*this, "amsgrad", &OptimizerOptions::amsgrad, "{}: divide by the largest second moment so far"},
      {*this, "centered", &OptimizerOptions::centered, "{}: divide by the variance in place of the mean square"},
      {*this, "epsilon-hat", &OptimizerOptions::epsilon_hat, "{}: add epsilon before the root is corrected, as Keras and ONNX do"},
      {*this, "decoupled", &OptimizerOptions::decoupled, "{}: weight decay as AdamW's, not by way of the gradient"},
  };
  Switch decay_on_vectors{*this, "decay-on-vectors", on, "let biases, scales and shifts of normalizations decay, too: whatever has one axis", {.field = "decay_vectors"}};
  Flag<std::string> group{*this, "group", "GROUPS", "", "parameters with numbers of their own, groups separated by ';', such as 'bias,*norm*: weight-decay=0; head*: lr=10x,from=2'", {.field = "groups", .separator = ';'}};
  Flag<double> clip_norm{*this, "clip-norm", "X", "0", "largest norm of all gradients together (0: any)"};
  Flag<double> clip_value{*this, "clip-value", "X", "0", "cut gradients to at most X in size (0: not)"};
  Flag<double> clip_parameter_norm{*this, "clip-parameter-norm", "X", "0", "largest norm of each parameter's gradient (0: any)"};
  Flag<std::int64_t> accumulate{*this, "accumulate", "N", "1", "batches that make one step: one batch of N times the size, in N micro-batches", whole<1, 65536>};
  Flag<double> ema{*this, "ema", "DECAY", "0", "keep a moving average of the weights, such as 0.999, measure it and write it (0: none)"};
  Switch swa{*this, "swa", off, "keep the mean of the weights at the ends of epochs, measure it and write it"};
};
inline constexpr OptimizerFlags optimizer_flags;

enum class ExportedWeights { as_kept, last, average, both };
inline constexpr FlagWord<ExportedWeights> exported_weights[] = {
    {"", ExportedWeights::as_kept}, {"last", ExportedWeights::last}, {"average", ExportedWeights::average}, {"both", ExportedWeights::both}};

// Of commands that train.
struct RateFlags : FlagGroup {
  Flag<Schedule> lr_schedule{*this, "lr-schedule", "SPEC", "constant", "{}", read_schedule, {.names = names_of_schedules}};
  Flag<double> average_from{*this, "average-from", "EPOCHS", "0", "epochs before --ema or --swa begins"};
  Flag<ExportedWeights> exports{*this, "export", "NAME", "", "which weights to write: last, average, or both (the last ones beside --output); default average where one is kept", one_of<exported_weights>};
  Flag<std::string> best{*this, "best", "[min:|max:]NAME", "", "what --keep best, --early-stopping and plateau go by, such as f1 or val_rmse (default the validation's accuracy, or the least loss)"};
  Flag<std::int64_t> early_stopping{*this, "early-stopping", "EPOCHS", "0", "end after so many epochs without a better measure (0: never)"};
  Flag<double> min_delta{*this, "min-delta", "X", "0", "what --early-stopping takes for better"};
  Flag<std::string> find_lr{*this, "find-lr", "FILE.svg", "", "test learning rates on this data, draw how the loss goes, suggest one, and train nothing"};
  Flag<RateTestOptions> find_lr_range{*this, "find-lr-range", "A,B,N", "1e-7,10,100", "rates from A to B in N steps that --find-lr tests", read_rate_range};
};
inline constexpr RateFlags rate_flags;

}  // namespace tandem
