// What was left out by --on-bad-sample skip.
#pragma once
#include <string_view>

#include "cli/command.h"
#include "data/preparation.h"

namespace tandem {

// Said at the end, with what became of one, or of several.
void tell_bad_samples(const Invocation& call, const Preprocess& preprocess, std::string_view one = "had its place taken by another",
                      std::string_view several = "had their places taken by others");

}  // namespace tandem
