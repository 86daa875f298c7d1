// Node tests of our operators that are not expected to pass, each with its reason. A listed case that passes fails the
// test, and so does a row that fits no case: the list stays short.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tandem::test {

struct SkippedCase {
  const char* pattern;          // glob
  const char* reason;
  std::string_view suite = {};    // the only one in which it fails; empty: wherever it is
  std::string_view backend = {};  // the only one on which it fails; empty: all
};
std::span<const SkippedCase> skipped_cases();  // those of the tested backend
const SkippedCase* skipped(const std::string& suite, const std::string& name);  // null: it is to pass

}  // namespace tandem::test
