#include "cli/flags.h"

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
    {"retune", "--retune"},
    {"sample_weights", "--sample-weights"},
    {"secret_file", "--secret-file"},
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
constexpr FlagName functions[] = {{"ModelFile::tensors()", "tandem summary --weights"}};

}  // namespace

std::span<const FlagName> flag_names() { return names; }

std::string_view program_word(std::string_view name) {
  for (const std::span<const FlagName> rows : {std::span<const FlagName>(names), std::span<const FlagName>(functions)})
    for (const FlagName& row : rows)
      if (row.option == name) return row.flag;
  return {};
}

}  // namespace tandem
