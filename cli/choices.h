// What `tandem train` chose by itself, and why: one table with the option that overrules each.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "trainer/prepare.h"

namespace tandem {

class Arguments;

struct Choice {
  std::string what, value, why, option;  // option: with its dashes
};

// Those of a run whose options are settled, without what the command line, the environment or a file gave.
std::vector<Choice> choices_of(const Arguments& arguments, const Model& model, const Prepared& run);

std::string text_of(const std::vector<Choice>& choices, std::size_t columns);  // at least one; its last line has no end
Json json_of(const std::vector<Choice>& choices);

}  // namespace tandem
