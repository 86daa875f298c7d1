#include "cli/tune_options.h"

#include "base/spec.h"

namespace tandem {

std::vector<OptionRow> tune_rows() {
  return {
      {"", "fine-tuning", "", ""},
      {"head", "N", "0", "so many classes: the layer that makes the scores gets new weights, the others stay (0: the model's own)"},
      {"replace-head", "NAME", "", "which layer --head means where several are possible: its node, module or weight, or the output that it makes"},
      {"cut", "VALUES", "", "end the model at these values, or nodes, separated by commas; what lies behind is left out, of the written model too"},
      {"train-only", "head", "", "train the new head alone: everything else is frozen, but for what --unfreeze names"},
      {"lora", "r=N,...", "", "train low-rank adapters alone: r=8,alpha=16,targets=PATTERN; alpha 8 if absent, targets all matrices of products ('*': convolutions and embeddings too; targets= may stand several times)"},
      adapter_row(),
  };
}

OptionRow adapter_row() { return {"adapter", "FILE", "", "put the adapters of this file on the model (train goes on with them alone)"}; }

WeightOptions adapter_options(const Arguments& a) {
  WeightOptions weights;
  if (!a.text("adapter").empty()) weights.lora = LoraOptions{.from = a.text("adapter")};
  return weights;
}

void read_head(const Arguments& a, WeightOptions& weights) {
  if (const std::int64_t classes = a.integer("head"); classes != 0) weights.head = classes;
  weights.replace_head = a.text("replace-head");
  weights.outputs = a.list("cut");
  const auto entries = a.list("lora");
  const std::string& from = a.text("adapter");
  if (!entries.empty() && !from.empty()) fail(ExitCode::usage, "--lora makes new adapters, --adapter ", from, " has its own: one of them");
  if (entries.empty() && from.empty()) return;
  LoraOptions lora{.from = from};
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals), value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    if (value.empty() || (key != "r" && key != "alpha" && key != "targets")) fail(ExitCode::usage, "--lora ", entry, ": expected r=N, alpha=X or targets=PATTERN");
    if (key == "r") lora.rank = parse_integer(value, "--lora r");
    if (key == "alpha") lora.alpha = parse_number(value, "--lora alpha");
    if (key == "targets") lora.targets.push_back(value);
  }
  lora.except = a.list("freeze");
  weights.lora = std::move(lora);
}

void read_train_only(const Arguments& a, const Model& model, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze) {
  if (!model.file().adapters().empty() && !a.text("train-only").empty()) fail(ExitCode::usage, "--train-only and --lora each say what is trained: one of them");
  const std::string& what = a.text("train-only");
  if (what.empty()) return;
  if (what != "head") fail(ExitCode::usage, "--train-only ", what, ": expected head");
  if (model.file().head().empty()) fail(ExitCode::usage, "--train-only head needs --head, the number of classes of the new one");
  freeze = {"*"};
  for (const std::string& name : model.file().head()) unfreeze.push_back(name);
}

}  // namespace tandem
