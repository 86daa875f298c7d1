#include "cli/train_end.h"

#include <fmt/format.h>

#include <cmath>
#include <csignal>

#include "base/atomic_file.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/train_events.h"
#include "cli/train_outputs.h"
#include "options/optimizer_flags.h"
#include "options/train_flags.h"
#include "trainer/checkpoint.h"

namespace tandem {
namespace {

// What training gave is not lost where it cannot be written as it should be: the run's folder has it, or one that is made
// beside the output, else here, else among the temporary files.
[[noreturn]] void keep_and_fail(const Invocation& call, Model& model, const Prepared& job, const History& history, const Error& cause) {
  namespace fs = std::filesystem;
  const fs::path output = call.arguments[output_flags.output], name = fs::path(unfinished(output)).stem();
  std::error_code error;
  std::string kept = history.kept == history.steps ? job.fit.run_dir.string() : "", refused;
  for (const fs::path& place : {output.parent_path(), fs::path("."), fs::temp_directory_path(error)})
    for (int n = 1; kept.empty() && n < 100; ++n) {
      const fs::path folder = (place / (n == 1 ? name.string() : concat(name.string(), '-', n))).lexically_normal();
      if (fs::exists(fs::symlink_status(folder, error))) continue;  // of another run that ended so
      try {
        model.keep(folder, *job.data.train, job.fit);
        kept = folder.string();
      } catch (const Error& e) {
        refused += concat("\n  ", e.what());
        break;
      }
    }
  if (kept.empty()) fail(cause.code(), cause.what(), "\nthe weights could not be kept anywhere:", refused);
  fail(cause.code(), cause.what(), "\nthe weights of step ", history.steps, " are kept in ", kept,
       "; what is left to do is done, here or elsewhere, by\n  tandem train --resume --run-dir ", kept, " --output FILE");
}

// What the weights that were written give on data that was not trained on: the last epoch has measured that, or not.
Evaluation held_out(const Invocation& call, Model& model, const Prepared& job, const EpochReport& last, const Interrupt& interrupt) {
  const Arguments& a = call.arguments;
  const Dataset *const validation = job.data.validation, *const data = job.data.test ? job.data.test : validation;
  if (!data || data->size() == 0) return {};
  const bool as_measured =
      a[output_flags.keep] == KeptWeights::last && (a[rate_flags.exports] != ExportedWeights::last || !job.fit.averaging.any());
  if (data == validation && as_measured && std::isfinite(last.val_loss))
    return {.loss = last.val_loss, .accuracy = last.val_accuracy, .samples = data->size()};
  Progress progress(call);
  EvaluateOptions measuring = job.measuring();
  measuring.on_batch = [&](std::int64_t done, std::int64_t all) { progress.samples(done, all); };
  measuring.stop = [&] { return interrupt.signal() != 0; };
  return model.evaluate(*data, measuring);
}

// The weights of the best checkpoint, if one was kept; of rank 0 alone it is known where the run's folder is.
void take_best(Model& model, const std::filesystem::path& file, World* world) {
  const bool here = is_first(world) && std::filesystem::exists(file);
  if (world ? world->any(here) : here) model.take_checkpoint(file);
}

// Where the last weights go beside an average of them.
std::string last_beside(const std::filesystem::path& output) { return path_beside(output, ".last" + output.extension().string()).string(); }

// What a run came to, in words.
std::string text_of_result(const History& history, const EpochReport& last, const Evaluation& test,
                           const std::vector<std::string>& written) {
  std::string result = fmt::format("trained {} {}", history.steps, history.steps == 1 ? "step" : "steps");
  if (history.samples_per_second > 0)
    result +=
        fmt::format(", {:.0f} samples/s ({:.1f}% of the time waiting for data)", history.samples_per_second, 100 * history.waiting_share);
  if (std::isfinite(last.loss)) result += fmt::format(", loss {:.4f}", last.loss);
  if (std::isfinite(test.loss)) result += fmt::format("\nheld-out data ({} samples): loss {:.4f}", test.samples, test.loss);
  if (std::isfinite(test.accuracy)) result += fmt::format(", accuracy {:.2f}%", 100 * test.accuracy);
  return concat(result, fmt::format("\nwrote {}\n", fmt::join(written, ", ")));
}

// Of a run that is done: fails (io) where it has no checkpoint at all, warns where it has not the last.
void tell_failed_checkpoints(const Invocation& call, const Prepared& job, const History& history, const std::string& output) {
  if (history.failed == 0) return;
  const std::string run = job.fit.run_dir.string();
  if (history.checkpoints == 0)
    fail(ExitCode::io, run, ": no checkpoint could be written, ", history.failed, " tried, the last: ", history.failure, "; ", output,
         " is whole");
  if (history.kept != history.steps)
    call.warn(concat(run, ": the last checkpoint is of step ", history.kept, " of ", history.steps, ", ", output, " is whole"));
}

}  // namespace

std::string unfinished(const std::filesystem::path& output) {
  return path_beside(output, ".unfinished" + output.extension().string()).string();
}

int stopped(const Invocation& call, Model& model, const History& history, const Prepared& job, const Interrupt& interrupt, World* world) {
  const int signal = interrupt.signal() != 0 ? interrupt.signal() : SIGINT;  // or another rank's
  if (history.steps == 0) throw StoppedBySignal(signal);
  const std::string folder = job.fit.run_dir.string(), output = call.arguments[output_flags.output], beside = unfinished(output);
  model.together([&] {
    const World::Busy busy(world);
    try {
      if (folder.empty()) save_outputs(call.arguments, model, beside, save_options(call.arguments));
      if (history.failed > 0 && history.kept != history.steps)
        fail(ExitCode::io, "no checkpoint of step ", history.steps, ": ", history.failure);
    } catch (const Error& e) {
      keep_and_fail(call, model, job, history, e);
    }
  });
  if (call.json()) call.print(stopped_event(history, folder.empty() ? beside : ""));
  if (folder.empty())
    call.say(fmt::format("stopped after step {}; the weights so far are in {}, {} was not written", history.steps, beside, output));
  else
    call.say(fmt::format("stopped after step {}; go on with --resume --run-dir {}", history.steps, folder));
  return folder.empty() ? signal_exit + signal : static_cast<int>(ExitCode::resumable);
}

std::vector<std::string> write_trained(const Invocation& call, Model& model, const Prepared& job, const History& history, World* world) {
  const Arguments& a = call.arguments;
  const bool first = is_first(world);
  const std::string output = a[output_flags.output];
  const ExportedWeights which = a[rate_flags.exports];
  // By rank 0, with what the others have. What cannot be written is kept while they still give it.
  const auto by_first = [&](const std::function<void()>& work) {
    model.together([&] {
      const World::Busy busy(world);
      try {
        work();
      } catch (const Error& e) {
        if (e.code() == ExitCode::communication) throw;
        keep_and_fail(call, model, job, history, e);
      }
    });
  };
  if (a[output_flags.keep] == KeptWeights::best) {
    const std::filesystem::path best = job.fit.run_dir / "best.checkpoint";
    if (first && !std::filesystem::exists(best))
      call.warn(concat(job.fit.run_dir.string(), " holds no best checkpoint: the last weights are written"));
    try {
      take_best(model, best, world);
    } catch (const Error& e) {
      if (!first || e.code() == ExitCode::communication) throw;
      keep_and_fail(call, model, job, history, e);
    }
  }
  if (which == ExportedWeights::both) by_first([&] { save_outputs(a, model, last_beside(output), save_options(a)); });
  if (job.fit.averaging.any() && which != ExportedWeights::last) model.swap_averages();
  std::vector<std::string> written{output};
  by_first([&] {
    SaveOptions options = save_options(a);
    if (a[output_flags.export_training_info])
      options.training =
          model.training_step(history.epochs.empty() ? job.fit.learning_rate.value_or(0) : history.epochs.back().learning_rate);
    written = save_outputs(a, model, output, options);
  });
  return written;
}

int tell_result(const Invocation& call, Model& model, const Prepared& job, const History& history, const std::vector<std::string>& written,
                const Interrupt& interrupt) {
  const EpochReport last = history.epochs.empty() ? EpochReport{.loss = not_measured} : history.epochs.back();
  const Evaluation test = held_out(call, model, job, last, interrupt);
  if (history.stopped_early)
    call.say(fmt::format("stopped early: {} epochs without a better measure", call.arguments[rate_flags.early_stopping]));
  if (call.json())
    call.print(done_event(model, history, last, test, written[0]));
  else
    call.write(text_of_result(history, last, test, written));
  tell_failed_checkpoints(call, job, history, call.arguments[output_flags.output]);
  return test.stopped ? signal_exit + (interrupt.signal() != 0 ? interrupt.signal() : SIGINT) : 0;
}

}  // namespace tandem
