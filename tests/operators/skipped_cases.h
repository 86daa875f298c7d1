// Node tests of our operators that are not expected to pass, each with its reason. A listed case that passes fails the
// test, so that the list stays short.
#pragma once
#include <string>

namespace tandem::test {

const char* reason_to_skip(const std::string& name);  // null: it is to pass

}  // namespace tandem::test
