// The record of a run's steps, a file that grows while it trains: steps.csv in the run's folder.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/file_descriptor.h"
#include "trainer/model.h"

namespace tandem {

// A file that is written at its end. Failures are errors (io).
class GrowingFile {
 public:
  GrowingFile() = default;
  explicit GrowingFile(const std::filesystem::path& path);  // goes on behind what is there; no link is followed
  void append(std::string_view bytes);                      // whole or not at all where the disk is full
  bool open() const { return file_.get() >= 0; }

 private:
  std::string name_;
  FileDescriptor file_;
  std::int64_t end_ = 0;
};

// Every step of the first 10,000, every tenth of the first 100,000, and so on: 9,000 rows more for a run of ten times the length.
bool is_recorded(std::int64_t step);

class StepLog {
 public:
  // In `folder`, empty: nowhere. `warn` is told, once, where it cannot be written: the run goes on without it.
  StepLog(std::filesystem::path folder, std::function<void(const std::string&)> warn)
      : folder_(std::move(folder)), warn_(std::move(warn)) {}
  // Before the first step: what an earlier part of the run wrote of steps beyond `step` goes.
  void begin(std::int64_t step);
  void step(const StepReport& report);
  void flush();  // also done once a second

 private:
  template <class Work>
  void attempt(Work&& work);

  std::filesystem::path folder_;
  std::function<void(const std::string&)> warn_;
  GrowingFile file_;
  std::string waiting_;
  std::chrono::steady_clock::time_point flushed_{};
};

}  // namespace tandem
