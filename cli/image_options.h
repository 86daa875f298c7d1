// How data reaches the model: --normalize, --resize, --workers, --on-bad-sample.
#pragma once
#include "cli/command.h"
#include "data/preparation.h"

namespace tandem {

void read_image_options(const Arguments& arguments, Preprocess& preprocess);
// What was left out by --on-bad-sample skip, at the end, and what became of one, or of several.
void tell_bad_samples(const Invocation& call, const Preprocess& preprocess, std::string_view one = "had its place taken by another",
                      std::string_view several = "had their places taken by others");

}  // namespace tandem
