// Structs of Thrift's compact protocol as a tree that can be changed and written anew.
#pragma once
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {

// The struct that `bytes` begin with: one of its numbers or texts, at any depth, replaced, a field left out, or what stands in a list
// exchanged or repeated; its length is taken off the front of `bytes`. False where there is none.
bool mutate_thrift(std::string_view& bytes, std::string& changed, Random& random);

}  // namespace tandem::fuzz
