#include "base/option.h"

#include <atomic>

namespace tandem {
namespace {

// The one thing that a process says once for all its threads: how whoever runs it calls the options.
std::atomic<OptionWords::Words> spoken{nullptr};
std::atomic<int> speakers{0};

std::string word_for(std::string_view name, std::string_view before) {
  const OptionWords::Words words = speakers > 0 ? spoken.load() : nullptr;
  const std::string word = words ? words(name) : "";
  return word.empty() ? std::string(before).append(name) : word;
}

}  // namespace

std::string option(std::string_view field) { return word_for(field, "option "); }
std::string function(std::string_view name) { return word_for(name, ""); }

OptionWords::OptionWords(Words words) : before_(spoken.exchange(words)) { ++speakers; }
OptionWords::~OptionWords() {
  if (before_) spoken = before_;  // programs may end in any order: the last one's words are dropped with it
  --speakers;
}

}  // namespace tandem
