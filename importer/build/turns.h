// What a loop has come to behind its last turn.
#pragma once
#include "importer/build/builder.h"

namespace tandem {

// Where a turn may lie behind the end, `active` says whether it does not.
struct Builder::Turns {
  Symbol active;
  std::vector<Symbol> carried;
  std::vector<List> gathered;
};

}  // namespace tandem
