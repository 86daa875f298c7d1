// Some exporters write BatchNormalization out as arithmetic. Trained like that its statistics would stand still.
#pragma once
#include "graph/graph.h"

namespace tandem {

// (x − mean) · 1/√(variance + epsilon) · scale + bias, where all four are parameters of one entry a channel and the
// statistics are not trained, becomes BatchNormalization, whatever the order of the products and the views between.
void recognise_batch_normalization(Graph& graph);

}  // namespace tandem
