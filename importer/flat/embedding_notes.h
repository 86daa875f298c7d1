// What PyTorch's exporter notes of an embedding beside its lookup: padding_idx, scale_grad_by_freq, max_norm. ONNX's Gather has none of
// them.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Marks each Gather that has a padding row (attribute padding_row: no gradient reaches that row through it), and warns of what is not
// followed.
void mark_embeddings(FlatModel& model);

}  // namespace tandem
