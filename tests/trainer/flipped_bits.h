// Bytes of a file of which one bit has changed.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace tandem {

// Calls action(bytes) once for each byte of `good`, in which that byte has another bit.
template <class Action>
void for_each_flipped_bit(const std::string& good, const Action& action) {
  for (std::size_t at = 0; at < good.size(); ++at) {
    SCOPED_TRACE(concat("byte ", at));
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << at % 8);
    action(bytes);
  }
}

}  // namespace tandem
