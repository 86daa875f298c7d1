// Which axis of each input holds the samples of a batch. A file seldom says it: these are the ways in which it can be read.
#pragma once
#include <string>
#include <vector>

#include "importer/types.h"

namespace tandem {

struct BatchReading {
  std::vector<int> axes;     // by input: the axis that holds the samples; no_samples: none does
  std::int64_t samples = 1;  // for which the file's own sizes are; 1 where they are symbolic
  bool symbolic = false;
  bool one_sample = false;           // no input has an axis for samples: the whole file is for one
  std::vector<std::string> assumed;  // by input: what a user should know of the choice; else empty

  bool any() const;  // whether some input holds samples
};

// Whether two dimensions of that name need not be equal: exporters give it to those that they know nothing about.
bool is_anonymous(const std::string& symbol);
// By what name options.dims gives the size of a dimension: its symbol, or "input:axis".
std::string size_name(const ModelInput& input, std::size_t axis);
// The size that options.dims gives; null: none.
const std::int64_t* given_size(const ImportOptions& options, const ModelInput& input, std::size_t axis);

// The readings that the options leave, the likeliest first; never none. A dimension of a name is the batch of every input that has it. Of
// files with sizes alone the batch is as long in all inputs that hold it.
std::vector<BatchReading> batch_readings(const std::vector<ModelInput>& inputs, const ImportOptions& options);

}  // namespace tandem
