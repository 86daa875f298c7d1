// Layout algebra: how a Transpose or Reshape of a tensor reads the same memory.
#pragma once
#include <optional>

#include "graph/attributes.h"
#include "graph/layout.h"

namespace tandem {

// The permutation that undoes one.
Ints inverse(const Ints& perm);

// The layout of transpose(x, perm) that shares x's memory; any layout of x has one.
Layout transposed(const Layout& layout, const Ints& perm);

// The plain layout of reshape(x, to) that shares x's memory, where x has a plain layout; nothing where elements would
// have to move.
std::optional<Layout> reshaped(const Shape& from, const Layout& layout, const Shape& to);

}  // namespace tandem
