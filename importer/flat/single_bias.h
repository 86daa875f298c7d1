// Keras's LSTM has one bias, of which the exporter makes two, as ONNX's has: the second is zeros. Trained both, their sum would move twice
// as far as Keras's one. So that half stays. Where the recurrence has two of its own (Keras's GRU with reset_after, PyTorch's), both train.
#pragma once
#include <string_view>

#include "importer/flat/flat_model.h"

namespace tandem {

// Among the trained biases of LSTM, RNN and GRU (linear_before_reset 0) of a file that `producer` wrote.
void find_single_biases(FlatModel& model, std::string_view producer);

}  // namespace tandem
