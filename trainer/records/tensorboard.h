// TensorBoard's event files: scalars of steps and epochs, histograms of weights, the model's graph.
// Source: TFRecord's framing (tensorflow/core/lib/io/record_writer.h) and event.proto, summary.proto, graph.proto.
#pragma once
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "trainer/records/run_log.h"

namespace tandem {

// One record of such a file: length, its checksum, the bytes, their checksum.
std::string tfrecord_of(std::string_view bytes);

class EventFile {
 public:
  // Nothing is written before begin(). `warn` is told, once, where it cannot be written: the run goes on without it.
  explicit EventFile(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}
  // A new file in `folder` of a run that goes on behind `step`: what other files there say of later steps is no longer shown.
  void begin(const std::filesystem::path& folder, std::int64_t step);
  bool open() const { return file_.open(); }

  void graph(const Graph& graph);
  void scalar(std::string_view tag, std::int64_t step, double value);  // that is finite, else nothing
  void histogram(std::string_view tag, std::int64_t step, std::span<const double> values);
  void step(const StepReport& report);  // those that is_recorded names
  void epoch(const EpochReport& report);
  void flush();  // also done every few seconds

 private:
  void event(std::int64_t step, std::string_view what);  // `what`: the encoded field beside time and step

  std::function<void(const std::string&)> warn_;
  GrowingFile file_;
  std::string waiting_;
  std::chrono::steady_clock::time_point flushed_{};
};

}  // namespace tandem
