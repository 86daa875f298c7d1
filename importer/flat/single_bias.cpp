#include "importer/flat/single_bias.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::string_view keras_exporter = "tf2onnx";
constexpr std::size_t bias = 3;  // input of a recurrence: [directions, twice the gates' units]

// Whether it adds its two biases to each other, whatever they are.
bool adds_biases(const FlatNode& n) {
  return n.domain.empty() && (n.op == "LSTM" || n.op == "RNN" || (n.op == "GRU" && n.attributes.integer("linear_before_reset", 0) == 0));
}

bool second_half_is_zero(const FlatInitializer& i) {
  if (!i.data || !is_float(i.type.dtype) || i.type.shape.rank() != 2 || i.type.shape[1] % 2 != 0) return false;
  const std::vector<double> values = i.data->to_doubles();
  const auto row = static_cast<std::size_t>(i.type.shape[1]);
  for (std::size_t k = 0; k < values.size(); ++k)
    if (k % row >= row / 2 && values[k] != 0) return false;
  return true;
}

// Of all that reads it: a recurrence's bias, and nothing else.
bool read_as_bias_alone(const FlatBody& body, Symbol s, int& readers) {
  for (const FlatNode& n : body.nodes) {
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] != s) continue;
      ++readers;
      if (i != bias || !adds_biases(n)) return false;
    }
    for (const FlatBody& inner : n.bodies)
      if (!read_as_bias_alone(inner, s, readers)) return false;
  }
  return std::find(body.outputs.begin(), body.outputs.end(), s) == body.outputs.end();
}

}  // namespace

void find_single_biases(FlatModel& model, std::string_view producer) {
  if (producer != keras_exporter) return;
  for (const FlatInitializer& i : model.main.initializers) {
    int readers = 0;
    if (model.holding(i.symbol) != Holding::trained || !read_as_bias_alone(model.main, i.symbol, readers) || readers == 0 ||
        !second_half_is_zero(i))
      continue;
    TemplateTensor& entry = model.tensors[static_cast<std::size_t>(model.held[static_cast<std::size_t>(i.symbol.index)])];
    if (entry.asked) continue;
    entry.reason += "; its second half stays zero, as Keras's layer has one bias";
    model.single_biases.push_back(i.symbol);
  }
}

}  // namespace tandem
