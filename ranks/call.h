// What ranks call together, told by each so that a call that differs is found out.
#pragma once
#include <cstdint>
#include <string>

#include "base/error.h"

namespace tandem {

struct Call {
  std::uint64_t kind = 0, channel = 0, bytes = 0;
  bool operator==(const Call&) const = default;
};
inline std::string text_of(const Call& c) { return concat(c.bytes, " bytes of kind ", c.kind, " on channel ", c.channel); }

}  // namespace tandem
