// Names of values in checkpoints.
#pragma once
#include <string>

namespace tandem {

// A name may be of any bytes, JSON's text may not: those beyond ASCII are written as %XX where they are no UTF-8.
std::string escaped(const std::string& name);
std::string unescaped(const std::string& text);

}  // namespace tandem
