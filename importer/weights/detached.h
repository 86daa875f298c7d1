// Where PyTorch takes a value without its gradient (detach). ONNX has no such operator, but the exporter notes with each node the call it
// comes from: with optimize=False detach is an Identity of that call. Where it optimizes, the Identity is gone, and only the next call
// still takes "%detach_2" in the place of a value of another name; where it takes as many values that are not in the file as its node reads
// values of other names, these are the same in their order. Where the Identity and a slice or view behind it that changes nothing are gone,
// no call names it any more: then the source line that the exporter notes may tell that there was one, but not of what. no_grad leaves no
// trace.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Marks the Identity nodes, and puts ones in for what is only taken so. What was found in that way, and what could not be placed, is warned
// of.
void mark_detached(FlatModel& model);

}  // namespace tandem
