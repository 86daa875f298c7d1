#include "options/tune_options.h"

#include "base/spec.h"
#include "options/weight_flags.h"

namespace tandem {

WeightOptions adapter_options(const OptionValues& a) {
  WeightOptions weights;
  if (const std::string file = a[adapter_flags.adapter]; !file.empty()) weights.lora = LoraOptions{.from = file};
  return weights;
}

void read_head(const OptionValues& a, WeightOptions& weights) {
  if (const std::int64_t classes = a[tune_flags.head]; classes != 0) weights.head = classes;
  weights.replace_head = a[tune_flags.replace_head];
  weights.outputs = a[tune_flags.cut];
  const auto entries = a[tune_flags.lora];
  const std::string from = a[adapter_flags.adapter];
  if (!entries.empty() && !from.empty())
    fail(ExitCode::usage, tune_flags.lora.told(), " makes new adapters, ", adapter_flags.adapter.told(), ' ', from,
         " has its own: one of them");
  if (entries.empty() && from.empty()) return;
  LoraOptions lora{.from = from};
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals), value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    if (value.empty() || (key != "r" && key != "alpha" && key != "targets"))
      fail(ExitCode::usage, tune_flags.lora.told(), ' ', entry, ": expected r=N, alpha=X or targets=PATTERN");
    if (key == "r") lora.rank = parse_integer(value, concat(tune_flags.lora.told(), " r"));
    if (key == "alpha") lora.alpha = parse_number(value, concat(tune_flags.lora.told(), " alpha"));
    if (key == "targets") lora.targets.push_back(value);
  }
  lora.except = a[weight_flags.freeze];
  weights.lora = std::move(lora);
}

void read_train_only(const OptionValues& a, const Model& model, std::vector<std::string>& freeze, std::vector<std::string>& unfreeze) {
  if (!a[tune_flags.train_only]) return;
  if (!model.file().adapters().empty())
    fail(ExitCode::usage, tune_flags.train_only.told(), " and ", tune_flags.lora.told(), " each say what is trained: one of them");
  if (model.file().head().empty())
    fail(ExitCode::usage, tune_flags.train_only.told(), " head needs ", tune_flags.head.told(), ", the number of classes of the new one");
  freeze = {"*"};
  for (const std::string& name : model.file().head()) unfreeze.push_back(name);
}

}  // namespace tandem
