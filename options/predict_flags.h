// Options of `tandem predict` alone.
#pragma once
#include "options/flag.h"

namespace tandem {

struct PredictFlags : FlagGroup {
  Flag<std::string> output{*this, "output", "FILE", "", "FILE.npy for the first output, FILE.npz for all, FILE.csv for a table of the first: of a classifier with class and probabilities", {.scope = FlagScope::place}};
  Flag<std::vector<std::string>> outputs{*this, "outputs", "VALUES", "", "write these values of the model, such as features, by name and separated by commas (default: its outputs)"};
  Flag<std::string> loss{*this, "loss", "NAME", "softmax-cross-entropy", "what labels mean for the data set; they are not used", {.paths = true}};
};
inline constexpr PredictFlags predict_flags;

}  // namespace tandem
