#include "cli/flags.h"

namespace tandem {
namespace {

constexpr FlagName names[] = {
    {"accumulate", "--accumulate"},
    {"adapter", "--adapter"},
    {"amsgrad", "--amsgrad"},
    {"augment", "--augment"},
    {"average_from", "--average-from"},
    {"batch", "--batch-size"},
    {"batch_axis", "--batch-axis"},
    {"best", "--best"},
    {"beta1", "--beta1"},
    {"beta2", "--beta2"},
    {"centered", "--centered"},
    {"check_nan", "--check-nan"},
    {"checkpoint_steps", "--checkpoint-every"},
    {"class_axis", "--class-axis"},
    {"class_weights", "--class-weights"},
    {"clip_norm", "--clip-norm"},
    {"clip_parameter_norm", "--clip-parameter-norm"},
    {"clip_value", "--clip-value"},
    {"constant", "--constant"},
    {"cut", "--cut"},
    {"dampening", "--dampening"},
    {"decay_vectors", "--decay-on-vectors"},
    {"decoupled", "--decoupled"},
    {"dense_labels", "--dense-labels"},
    {"dims", "--dim"},
    {"early_stopping", "--early-stopping"},
    {"ema", "--ema"},
    {"epsilon", "--epsilon"},
    {"epsilon_hat", "--epsilon-hat"},
    {"export_training_info", "--export-training-info"},
    {"freeze", "--freeze"},
    {"groups", "--group"},
    {"head", "--head"},
    {"ignore_index", "--ignore-index"},
    {"init", "--init"},
    {"keep_external_layout", "--keep-external-layout"},
    {"label_smoothing", "--label-smoothing"},
    {"learning_rate", "--lr"},
    {"lora", "--lora"},
    {"lora_export", "--lora-export"},
    {"loss", "--loss"},
    {"loss_on", "--loss-on"},
    {"loss_scale", "--loss-scale"},
    {"lr_schedule", "--lr-schedule"},
    {"max_turns", "--max-turns"},
    {"momentum", "--momentum"},
    {"nesterov", "--nesterov"},
    {"normalize", "--normalize"},
    {"on_bad_sample", "--on-bad-sample"},
    {"optimizer", "--optimizer"},
    {"outputs", "--outputs"},
    {"overwrite", "--overwrite"},
    {"precision", "--precision"},
    {"rate_decay", "--rate-decay"},
    {"replace_head", "--replace-head"},
    {"resize", "--resize"},
    {"resume", "--resume"},
    {"retune", "--retune"},
    {"rho", "--rho"},
    {"running_variance", "--running-variance"},
    {"sample_weights", "--sample-weights"},
    {"secret_file", "--secret-file"},
    {"seed", "--seed"},
    {"set", "--set"},
    {"shift_labels", "--shift-labels"},
    {"shuffle", "--shuffle"},
    {"swa", "--swa"},
    {"synchronize_batch_norm", "--sync-batch-norm"},
    {"teacher", "--teacher"},
    {"teacher_weight", "--teacher-weight"},
    {"temperature", "--temperature"},
    {"tie", "--tie"},
    {"trainable", "--trainable"},
    {"trust", "--trust"},
    {"unfreeze", "--unfreeze"},
    {"untie", "--untie"},
    {"weight_decay", "--weight-decay"},
    {"without_passes", "--without-pass"},
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
