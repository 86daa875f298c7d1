// A model that is little but a large table in a file of its own.
#pragma once
#include <fstream>
#include <string>
#include <vector>

#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {

// folder/name: the mean of four rows of a table, [rows, width] float32 in folder/table.bin, by a matrix [width, 10]; classes of samples.
inline void write_table_model(const TemporaryFolder& folder, const std::string& name, std::int64_t rows, std::int64_t width) {
  // Rows are written one by one: the most memory that this process takes counts for those that it starts.
  std::vector<float> row(static_cast<std::size_t>(width));
  std::ofstream data(folder / "table.bin", std::ios::binary);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>((r * 31 + i * 17) % 1000) * 1e-4F;
    data.write(reinterpret_cast<const char*>(row.data()), width * static_cast<std::int64_t>(sizeof(float)));
  }
  test::Model model;
  model.input("x", "N,4", onnx::TensorProto::INT64).output("y").add(test::filled_tensor("w", {width, 10}));
  model.add(test::external_tensor("table", {rows, width}, {{"location", "table.bin"}}));
  model.add(test::node("Gather", {"table", "x"}, {"e"}))
      .add(test::node("ReduceMean", {"e"}, {"m"}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}}));
  model.add(test::node("MatMul", {"m", "w"}, {"y"}));
  folder.write(name, model.bytes());
}

}  // namespace tandem
