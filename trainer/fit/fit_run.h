// One call of Model::fit: the training loop.
#pragma once
#include <chrono>
#include <optional>
#include <utility>

#include "trainer/compiled_model.h"
#include "trainer/fit/replicas.h"
#include "trainer/fit/step_plan.h"
#include "trainer/model.h"
#include "trainer/records/best_measure.h"
#include "trainer/records/position.h"
#include "trainer/records/run_checkpoints.h"
#include "trainer/records/run_folder.h"
#include "trainer/records/run_records.h"

namespace tandem {

class Fit {
 public:
  Fit(Model& model, CompiledModel& state, const Dataset& data, const FitOptions& options)
      : model_(model),
        s_(state),
        data_(data),
        o_(options),
        folder_(state.first() ? options.run_dir : std::filesystem::path(), options.run_dir_held, [this](const std::string& text) { warn(text); }),
        records_(folder_, options, [this](const std::string& text) { warn(text); }),
        feed_(data, state.targets, options.preprocess, state.options.seed),
        bytes_(feed_.give_bytes(state.options.plan.given_bytes)),
        buckets_(state.buckets_for(feed_)),
        from_initial_(std::exchange(state.initial, false)),
        order_{.samples = data.size(), .batch = state.running().plan(0).batch, .shuffle = options.shuffle && !data.iterable(), .seed = state.options.seed, .buckets = buckets_.by_sample()},
        steps_(state, options, order_),
        checkpoints_(folder_, state, data, order_, options) {}

  History run();        // leaves word in the folder of how it ended
  void keep_position();  // leaves where the last fit ended in the folder

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

  // A batch whose step was begun.
  struct Begun {
    std::size_t plan = 0;
    double rate = 0;
    StepState state;
    std::vector<double> weights;  // of its means
    std::int64_t epoch = 0, index = 0;
  };
  // A step that has ended.
  struct Stepped {
    Begun last;  // its last batch
    bool first = false;  // of this call of fit
    bool checkpoint_due = false;
    double seconds = 0;
  };

  History run_to_its_end();
  void check();
  History history(bool stopped);
  void warn(const std::string& text) const {
    if (o_.callbacks.on_warning) o_.callbacks.on_warning(text);
  }
  bool asked_to_stop() const { return s_.any(o_.callbacks.stop && o_.callbacks.stop()); }

  // Steps.
  void train();
  LoaderOptions batches_from_here() const;  // augmented, on and on
  Stepped run_step(Loader& loader, bool first);
  bool reports_now(const Stepped& step) const;
  void exchange_reports();
  void report_steps();
  StepReport report_of(const Stepped& step, std::int64_t number) const;
  bool end_step(const Stepped& step);
  std::size_t plan_of(const LoadedBatch& batch) { return s_.plan_for({.batch = batch.size, .bytes = bytes_, .bucket = batch.bucket}); }
  double rate_of(std::int64_t step) const;  // from 0
  Begun begin(Loader& loader, std::int64_t step, bool counts);
  bool goes_on(const Begun& now, bool due) const;
  // Whether a step (from 0) is the one that is profiled: the third, behind those that meet cold memory.
  bool profiles(std::int64_t step) const { return profiled_ && step == std::min(started_ + 2, steps_.total() - 1); }
  void profile(std::size_t plan, const LoadedBatch& batch, const StepState& state);
  bool checkpoint_due(const Begun& now);
  void settle() noexcept;
  void count(const StepReport& report, bool first);
  bool run_ends() const { return at_.step == steps_.total(); }
  bool epoch_ends() const { return at_.batch == order_.batches(); }
  // What of the total loss a metric of the step's report is, and by which weight it is averaged.
  struct Part {
    std::string metric;
    double share = 1;
    std::size_t weight = 0;
  };
  std::vector<Part> parts_of_loss() const;

  // Epochs.
  void end_epoch(double rate, bool whole);
  void finish_epoch();
  void judge();
  void keep();
  void write_metrics();
  // All ranks go by the first one's clock.
  bool time_is_over() const { return o_.checkpoint_seconds > 0 && s_.first() && seconds(Clock::now() - kept_at_) >= o_.checkpoint_seconds; }
  bool time_for_checkpoint() const { return s_.options.world ? time_told_ : time_is_over(); }
  void check_same() const {
    if (o_.check_replicas > 0) check_replicas(*s_.session, s_.options.world, at_.step);
  }
  // A checkpoint at an epoch's end is written before the epoch is measured and compared with the best: whoever goes on from
  // it does both.
  bool epoch_is_open() const { return !at_.history.empty() && at_.history.back().step == at_.step; }

  // What went wrong.
  void check_weights(double rate);
  std::string advice(std::int64_t failed);
  std::string cause_of(std::int64_t failed, bool kept);
  struct Cause {
    std::int64_t step = 0;
    std::string values{}, labels{};  // what made a value that is not finite; what of the labels does
  };
  Cause find_cause(bool kept, std::int64_t failed);
  [[noreturn]] void diverged(const StepReport& report);

  Model& model_;
  CompiledModel& s_;
  const Dataset& data_;
  const FitOptions& o_;
  RunFolder folder_;
  RunRecords records_;
  Feed feed_;
  const bool bytes_;  // it gives these
  const Buckets buckets_;
  const bool from_initial_;  // the run starts with the model's first values
  BatchOrder order_;
  StepPlan steps_;
  RunCheckpoints checkpoints_;
  const std::vector<Part> parts_ = parts_of_loss();
  const BestMeasure best_{o_.best};
  Position at_;
  double timed_samples_ = 0, timed_seconds_ = 0, waited_seconds_ = 0;
  Clock::duration trained_{};  // time of all steps so far
  Clock::time_point kept_at_ = Clock::now();  // the last checkpoint
  bool told_of_capture_ = false;
  bool profiled_ = false;  // some rank asks for it
  bool begun_ = false, stopped_ = false, stopped_early_ = false, in_step_ = false;
  std::vector<Stepped> waiting_;     // whose outputs the ranks have not exchanged, the latest last
  const bool reports_every_step_ = !s_.options.world || o_.report_seconds <= 0;
  std::uint64_t report_steps_ = 1;   // after so many at most they do: rank 0's choice
  bool time_told_ = false;           // then rank 0 said that it is time for a checkpoint
  std::optional<Begun> ahead_;  // begun while the one before computes
  bool announced_ = false;      // the next batch, to the step begun last
  bool stop_asked_ = false;
  std::int64_t started_ = 0;  // step that the run went on from
};

}  // namespace tandem
