// Operators that are gone once a graph is built, so that no stage behind the importer knows of them.
#pragma once
#include <initializer_list>
#include <span>
#include <string_view>

namespace tandem {

struct Decomposed {
  std::string_view domain, op;
  std::initializer_list<int> since;  // opsets in which the definition changed
  bool differentiable;               // a gradient flows through what it becomes
};

// If, Loop and Scan (control_flow.cpp, scan_samples.cpp), FlexAttention (flex_attention.cpp), lists of tensors and optional values
// (sequences.cpp), linear models (linear_models.cpp).
std::span<const Decomposed> decomposed();

}  // namespace tandem
