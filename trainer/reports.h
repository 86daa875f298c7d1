// What training and measuring report.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "trainer/measure/class_table.h"

namespace tandem {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

struct StepReport {
  std::int64_t epoch = 0, step = 0;  // from 1; step counts through all epochs
  std::int64_t steps = 0;            // of the whole run, where that is known
  std::int64_t samples = 0;
  double loss = 0;
  double accuracy = not_measured;
  double counted = 0;  // what the accuracy is a share of: samples, or their places that have a class each and are not ignored
  // What the loss is divided by, each loss's own where there are several: the samples' or tokens' weights. A mean over steps weighs by
  // these.
  std::vector<double> weights;
  double learning_rate = 0;
  double loss_scale = not_measured;  // of this step, where the loss is scaled
  std::map<std::string, double> metrics;  // of several losses: "OUTPUT_loss", each without its weight in the total
  double seconds = 0;                // since the step before
};

struct EpochReport {
  std::int64_t epoch = 0, epochs = 0, step = 0;
  double loss = 0, accuracy = not_measured, val_loss = not_measured, val_accuracy = not_measured;
  double learning_rate = 0;
  double seconds = 0;  // of training, without validation
  double samples_per_second = 0;
  std::map<std::string, double> metrics;  // further ones by name, "f1" and of the validation "val_f1": records and curves show them
};

struct RateTest {
  std::vector<double> rates, losses, smoothed;
  double suggestion = not_measured;  // the rate at which the smoothed loss falls fastest; not finite: it never does
};

struct History {
  std::vector<EpochReport> epochs;
  std::int64_t steps = 0;
  double samples_per_second = 0;  // of this process's training, without its first step
  double waiting_share = 0;       // of that training's time, in which a step waited for its data
  bool stopped = false;           // by Callbacks::stop
  bool stopped_early = false;     // by EarlyStopping
  std::int64_t kept = 0;          // step of the last checkpoint: this run's, or the one it went on from
  std::int64_t checkpoints = 0, failed = 0;  // of this run that were written, that could not be
  std::string failure;            // of the last that could not
};

struct Evaluation {
  double loss = not_measured, accuracy = not_measured;
  std::int64_t samples = 0;
  double samples_per_second = 0;
  bool stopped = false;  // by EvaluateOptions::stop: nothing was measured
  std::map<std::string, double> metrics;  // by name; of several losses "OUTPUT_loss", "OUTPUT_f1"
  std::map<std::string, ClassTable> tables;  // by output, "" of the only one: where there are classes
};

}  // namespace tandem
