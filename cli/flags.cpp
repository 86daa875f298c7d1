#include "cli/flags.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr FlagName names[] = {
    {"accumulate", "--accumulate"},
    {"adapter", "--adapter"},
    {"augment", "--augment"},
    {"average_from", "--average-from"},
    {"batch", "--batch-size"},
    {"batch_axis", "--batch-axis"},
    {"best", "--best"},
    {"check_nan", "--check-nan"},
    {"checkpoint_steps", "--checkpoint-every"},
    {"class_axis", "--class-axis"},
    {"class_weights", "--class-weights"},
    {"clip_norm", "--clip-norm"},
    {"clip_parameter_norm", "--clip-parameter-norm"},
    {"constant", "--constant"},
    {"cut", "--cut"},
    {"dense_labels", "--dense-labels"},
    {"dims", "--dim"},
    {"early_stopping", "--early-stopping"},
    {"ema", "--ema"},
    {"export_training_info", "--export-training-info"},
    {"freeze", "--freeze"},
    {"groups", "--group"},
    {"head", "--head"},
    {"ignore_index", "--ignore-index"},
    {"init", "--init"},
    {"keep_external_layout", "--keep-external-layout"},
    {"label_smoothing", "--label-smoothing"},
    {"lora", "--lora"},
    {"lora_export", "--lora-export"},
    {"learning_rate", "--lr"},
    {"loss", "--loss"},
    {"loss_on", "--loss-on"},
    {"lr_schedule", "--lr-schedule"},
    {"max_turns", "--max-turns"},
    {"on_bad_sample", "--on-bad-sample"},
    {"optimizer", "--optimizer"},
    {"outputs", "--outputs"},
    {"overwrite", "--overwrite"},
    {"precision", "--precision"},
    {"replace_head", "--replace-head"},
    {"resume", "--resume"},
    {"sample_weights", "--sample-weights"},
    {"set", "--set"},
    {"shift_labels", "--shift-labels"},
    {"swa", "--swa"},
    {"synchronize_batch_norm", "--sync-batch-norm"},
    {"teacher", "--teacher"},
    {"tie", "--tie"},
    {"trainable", "--trainable"},
    {"unfreeze", "--unfreeze"},
    {"untie", "--untie"},
};

// What the API offers as a function, and the program as a command.
constexpr std::string_view function = "ModelFile::tensors()", command = "tandem summary --weights";

bool in_name(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

}  // namespace

std::span<const FlagName> flag_names() { return names; }

std::string in_flags(std::string_view text) {
  constexpr std::string_view before = "option ";
  std::string out;
  for (std::size_t at; (at = text.find(before)) != std::string_view::npos;) {
    const std::string_view rest = text.substr(at + before.size());
    const auto end = std::find_if_not(rest.begin(), rest.end(), in_name);
    const std::string_view option = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    const auto found = std::find_if(std::begin(names), std::end(names), [&](const FlagName& n) { return n.option == option; });
    out += text.substr(0, at);
    out += found == std::end(names) ? text.substr(at, before.size() + option.size()) : found->flag;
    text = rest.substr(option.size());
  }
  out += text;
  for (std::size_t at; (at = out.find(function)) != std::string::npos;) out.replace(at, function.size(), command);
  return out;
}

}  // namespace tandem
