// How a model is trained, and measured.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/dataset.h"
#include "data/preparation.h"
#include "trainer/reports.h"
#include "trainer/schedule.h"

namespace tandem {

struct Plan;
struct Timeline;

// Called from the thread that called fit.
struct Callbacks {
  std::function<void()>
      on_begin;  // before a step, and before a validation: until on_step, or on_epoch, the run waits for data and devices alone
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;
  std::function<void(std::int64_t done, std::int64_t all)> on_validation;  // samples, after every batch of a validation
  std::function<void(const std::string&)> on_warning;  // what went wrong though the run goes on, such as a file that cannot be written
  // The plan of the run's third step, or its last where there are fewer, and when each part of that step was done, by device of all
  // ranks (Session::run_traced). Called on rank 0; that step is slower than others on GPUs. Empty on all ranks: no step is looked at so.
  std::function<void(const Plan&, const std::vector<Timeline>&)> on_profile;
  // Asked before the first step, after every step and between the kernels of a validation, by several threads: true, of any
  // rank, ends the run, which can be resumed. The metrics of a validation that was broken off stay empty until then. A step that was
  // begun by then (FitOptions::run_ahead) ends first.
  std::function<bool()> stop;
  // The learning rate of a step, counted from 1, in place of the schedule's, `scheduled`; asked when the step is begun, which may be before
  // on_step of the step before (FitOptions::run_ahead). All ranks give the same. fit fails (usage) where it is negative or not finite.
  std::function<double(std::int64_t step, double scheduled)> learning_rate;
};

// Averages of the weights beside the weights; the model is compiled with OptimizerOptions::average. Epochs are measured with them.
struct Averaging {
  double ema = 0;      // decay of a moving average, moved after every step: 0 none
  bool swa = false;    // the mean of the weights at the ends of epochs
  double from = 0;     // epochs before it begins; until then the averages are the weights
  bool any() const { return ema > 0 || swa; }
};

// Ends a run where the measure that the best checkpoint is chosen by has not been better by more than `min_delta` for so many epochs.
struct EarlyStopping {
  std::int64_t patience = 0;  // 0: never
  double min_delta = 0;
};

// How the loss goes while the learning rate grows from step to step.
struct RateTestOptions {
  double least = 1e-7, most = 10;  // rates
  std::int64_t steps = 100;
  double smoothing = 0.9;          // of the loss: what of it is carried on
  double ends_at = 4;              // times the least smoothed loss: the rest is not tried
};

struct FitOptions {
  std::int64_t epochs = 1;  // 0: as many as `steps` take
  std::int64_t steps = 0;   // at most; 0: no limit
  std::optional<double> learning_rate;  // absent: the optimizer's default
  Schedule schedule;
  Preprocess preprocess;
  bool shuffle = true;                  // an iterable data set's samples keep their order
  const Dataset* validation = nullptr;  // measured after every epoch
  std::int64_t eval_batch = 0;          // 0: as in training; with micro-batches as many samples as one has
  std::filesystem::path run_dir;        // checkpoints, metrics.csv, curves.svg, plan.txt, config.json; empty: none. Rank 0's
  bool run_dir_held = false;            // the caller holds the folder by a RunLock
  Json config;                          // what to write to config.json
  std::string choices;                  // what was chosen without being asked for, and why: plan.txt ends with it
  bool resume = false;                  // go on from run_dir's last checkpoint
  std::int64_t checkpoint_steps = 0;    // also in between epochs; 0: after each epoch only
  // Compare the parameters of all replicas (devices, also of other ranks) every so many steps, and before each checkpoint;
  // fails (device) where they differ, naming device, step and parameter. 0: never.
  std::int64_t check_replicas = 1000;
  // Records, in run_dir.
  double checkpoint_seconds = 0;      // also so often; 0: not
  std::int64_t keep_checkpoints = 0;  // beside the last and the best so many of the latest, as step-N.checkpoint
  bool tensorboard = false;           // TensorBoard's event files
  bool histograms = false;            // in these, of all weights after every epoch
  bool check_nan = false;             // look at all weights after every step; seek the cause of what is not finite however far back it lies
  // On devices that work by themselves (GPUs) the next step is begun before this one's results are there, wherever nothing is to
  // look at the model in between: on_step comes while the next step computes, and may not ask for the model's values then. The
  // results are the same.
  bool run_ahead = true;
  Callbacks callbacks;

  Averaging averaging;
  EarlyStopping early_stopping;
  std::vector<std::string> metrics{"auto"};  // of validations: as EvaluateOptions::metrics
  // What the best checkpoint, early stopping and the plateau go by: [min:|max:]NAME of an epoch's report, as "val_f1" or "loss"; a
  // name alone is that of the validation where there is one. Empty: the validation's accuracy, or the least loss.
  std::string best;

  // Of several ranks: the losses and metrics of steps, and the ranks' wishes to stop, cross at the ends of epochs, before checkpoints, and
  // about so many seconds apart. on_step then comes for several steps in a row, `stop` is asked and a loss that is not finite is found as
  // seldom. 0: after every step. The results are the same.
  double report_seconds = 0;
};

struct EvaluateOptions {
  std::int64_t batch = 0;  // 0: the compiled plan's
  Preprocess preprocess;
  std::vector<std::string> metrics{"auto"};  // auto takes those that people look at with this loss; empty: loss and accuracy
  std::function<void(std::int64_t done, std::int64_t all)> on_batch;
  std::function<bool()> stop;  // asked after every batch and between kernels, by several threads: true, of any rank, ends it
  std::vector<std::string> outputs;  // of predict: values of the model by name, such as features, in place of its outputs
};

}  // namespace tandem
