// The plans of a run, kept in its folder as files (RUN/plans/training-64-HASH.plan): a resumed run goes on with the very
// kernels it began with, whatever times a new choice would be made by.
#pragma once
#include <filesystem>
#include <optional>

#include "planner/compile.h"

namespace tandem {

class KeptPlans {
 public:
  KeptPlans() = default;  // keeps nothing
  // The folder is made where there is none. Without `resume`, plans that an earlier run has left there are removed.
  KeptPlans(std::filesystem::path folder, bool resume);

  // As compile; but the plan kept for the same model, devices, options and program where there is one, and one that is made
  // is kept. Plans are the same request where the one that estimates alone would give is the same.
  // `given` is taken, and kept, in place of one that would be made.
  Plan compile(const GraphSource& source, const CompileOptions& options, Backends backends, const Plan* parameters_of,
               const Plan* given = nullptr);

  const std::string& failure() const { return failure_; }  // why a plan was not kept; empty: all were

  // Whether a resumed run had to make a plan anew.
  bool made_anew() const { return resume_ && made_; }

 private:
  std::filesystem::path folder_;
  bool resume_ = false, made_ = false;
  std::string failure_;
};

}  // namespace tandem
