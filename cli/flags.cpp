#include "cli/flags.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr FlagName names[] = {
    {"checkpoint_steps", "--checkpoint-steps"},
    {"class_axis", "--class-axis"},
    {"constant", "--constant"},
    {"dims", "--dim"},
    {"freeze", "--freeze"},
    {"head", "--head"},
    {"init", "--init"},
    {"keep_external_layout", "--keep-external-layout"},
    {"loss", "--loss"},
    {"loss_on", "--loss-on"},
    {"overwrite", "--overwrite"},
    {"precision", "--precision"},
    {"replace_head", "--replace-head"},
    {"resume", "--resume"},
    {"synchronize_batch_norm", "--sync-batch-norm"},
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
