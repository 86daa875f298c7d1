// Options of which weights are trained, and of training a model that was trained before for something else.
#pragma once
#include <utility>

#include "options/flag.h"

namespace tandem {

std::vector<std::pair<std::string, std::string>> read_pairs(const FlagRow&, const std::string& text);  // A=B,C=D

struct WeightFlags : FlagGroup {
  constexpr WeightFlags() : FlagGroup("which weights are trained") {}
  Flag<std::vector<std::string>> freeze{*this, "freeze", "PATTERNS", "", "weights not to train, by name with * and ?, separated by commas; a BatchNormalization's statistics stay with it"};
  Flag<std::vector<std::string>> unfreeze{*this, "unfreeze", "PATTERNS", "", "exceptions to --freeze"};
  Flag<std::vector<std::string>> trainable{*this, "trainable", "PATTERNS", "", "tensors of the file that are weights, whatever tandem takes them for (summary --weights)"};
  Flag<std::vector<std::string>> constant{*this, "constant", "PATTERNS", "", "tensors of the file that are constants"};
  Flag<std::vector<std::string>> untie{*this, "untie", "PATTERNS", "", "tensors that several nodes read: each gets its own, also in the trained model ('*': all, none; default: scales and biases that the exporter merged)"};
  Flag<std::vector<std::pair<std::string, std::string>>> tie{*this, "tie", "A=B", "", "train B as A (transposed where shapes say so), both are written; pairs separated by commas", read_pairs};
};
inline constexpr WeightFlags weight_flags;

inline constexpr FlagWord<bool> trained_parts[] = {{"", false}, {"head", true}};

struct TuneFlags : FlagGroup {
  constexpr TuneFlags() : FlagGroup("fine-tuning") {}
  Flag<std::int64_t> head{*this, "head", "N", "0", "so many classes: the layer that makes the scores gets new weights, the others stay (0: the model's own)"};
  Flag<std::string> replace_head{*this, "replace-head", "NAME", "", "which layer --head means where several are possible: its node, module or weight, or the output that it makes"};
  Flag<std::vector<std::string>> cut{*this, "cut", "VALUES", "", "end the model at these values, or nodes, separated by commas; what lies behind is left out, of the written model too"};
  Flag<bool> train_only{*this, "train-only", "head", "", "train the new head alone: everything else is frozen, but for what --unfreeze names", one_of<trained_parts>};
  Flag<std::vector<std::string>> lora{*this, "lora", "r=N,...", "", "train low-rank adapters alone: r=8,alpha=16,targets=PATTERN; alpha 8 if absent, targets all matrices of products ('*': convolutions and embeddings too; targets= may stand several times)"};
};
inline constexpr TuneFlags tune_flags;

struct AdapterFlags : FlagGroup {
  Flag<std::string> adapter{*this, "adapter", "FILE", "", "put the adapters of this file on the model (train goes on with them alone)", {.paths = true}};
};
inline constexpr AdapterFlags adapter_flags;

}  // namespace tandem
