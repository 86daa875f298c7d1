// What a loop has come to behind its last iteration.
#pragma once
#include "importer/build/builder.h"

namespace tandem {

// Where an iteration may lie behind the end, `active` says whether it does not.
struct Builder::LoopState {
  Symbol active;
  std::vector<Symbol> carried;
  std::vector<List> gathered;
};

}  // namespace tandem
