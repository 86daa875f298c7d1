#include "cli/tune_options.h"

namespace tandem {

std::vector<OptionRow> tune_rows() {
  return {
      {"", "fine-tuning", "", ""},
      {"head", "N", "0", "so many classes: the layer that makes the scores gets new weights, the others stay (0: the model's own)"},
      {"replace-head", "NODE", "", "the node that --head means, by name or output, where several are possible"},
      {"train-only", "head", "", "train the new head alone: everything else is frozen, but for what --unfreeze names"},
  };
}

void read_head(const Arguments& a, WeightOptions& weights) {
  if (const std::int64_t classes = a.integer("head"); classes != 0) weights.head = classes;
  weights.replace_head = a.text("replace-head");
}

void read_train_only(const Arguments& a, const Model& model, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze) {
  const std::string& what = a.text("train-only");
  if (what.empty()) return;
  if (what != "head") fail(ExitCode::usage, "--train-only ", what, ": expected head");
  if (model.file().head().empty()) fail(ExitCode::usage, "--train-only head needs --head, the number of classes of the new one");
  freeze = {"*"};
  for (const std::string& name : model.file().head()) unfreeze.push_back(name);
}

}  // namespace tandem
