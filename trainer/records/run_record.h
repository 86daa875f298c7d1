// What runs have left in their folders, read back: to list and to compare them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/records/curves.h"
#include "trainer/records/run_folder.h"

namespace tandem {

struct RunRecord {
  std::filesystem::path folder;
  std::string name;                 // of the folder
  std::string state;                // running, done, stopped, failed; killed: nothing tells of an end
  std::string error;                // of one that failed
  Json config;                      // the options that it was started with
  std::vector<EpochReport> epochs;  // that were measured
  std::int64_t modified = 0;        // seconds since 1970

  std::string option(std::string_view name) const;  // as text; empty: not given
  double seconds() const;                           // of training
};

// The number by which epochs of a run are judged: its highest validation accuracy, or another of what was measured.
struct BestEpoch {
  std::string metric;
  double value = not_measured;
  std::int64_t epoch = 0;
};
BestEpoch best_of(const RunRecord& run);

bool is_run(const std::filesystem::path& folder);
// Fails (io, data) where it is none.
RunRecord read_run(const std::filesystem::path& folder);
// The folder itself where it is a run's, else those in it, the oldest first.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

// A panel for every number measured, a line for every run.
std::vector<Panel> compare(const std::vector<RunRecord>& runs);

}  // namespace tandem
