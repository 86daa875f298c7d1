// A model as a table: its nodes with output shapes and parameters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

struct SummaryRow {
  std::string node;
  std::string op;
  TensorType output;
  std::int64_t parameters = 0;  // counted where they are first used
  double flops = 0;             // of one sample
};
struct Summary {
  std::string model;
  std::vector<SummaryRow> rows;
  std::int64_t parameters = 0;  // in all, running statistics included
  std::int64_t trainable = 0;
  std::int64_t bytes = 0;  // of the parameters
  double flops = 0;
};
Summary summarize(const Graph& graph);
std::string text_of(const Summary& summary);

}  // namespace tandem
