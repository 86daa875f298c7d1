#include "tests/fuzz/small_run.h"

#include <algorithm>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "trainer/checkpoint.h"
#include "trainer/checkpoint_parts.h"

namespace tandem::fuzz {

std::string small_model_bytes() {
  test::Model m;
  m.input("x", "N,4").output("y");
  m.add(test::filled_tensor("w", {4, 3})).add(test::filled_tensor("b", {3}, 0.1F));
  m.add(test::node("Gemm", {"x", "w", "b"}, {"y"}));
  return m.bytes();
}

SmallRun::SmallRun(std::filesystem::path folder) : folder_(std::move(folder)), model_(ModelFile::parse(small_model_bytes(), {})) {
  static const Backend* const backends[] = {&cpu_backend()};
  ModelOptions options{.init = "he-normal"};
  options.plan.batch = 4;
  options.plan.devices = {{{"cpu", 0}}};
  options.plan.optimizer = optimizer_defaults("adam");
  model_.compile(options, backends);
  data_ = open_data("random,samples=7", model_.data_request());
  model_.fit(*data_.train, this->options(3, false));
}

FitOptions SmallRun::options(std::int64_t steps, bool resume) const {
  return {.epochs = 0,
          .steps = steps,
          .learning_rate = 0.01,
          .validation = data_.train.get(),
          .run_dir = folder_,
          .resume = resume,
          .checkpoint_steps = 1};
}

void SmallRun::go_on() {
  model_.fit(*data_.train, options(steps, true));
}

// Of each value that has rows the first half is in part 0, the others in part 1.
std::vector<std::string> write_in_parts(const std::filesystem::path& from, const std::filesystem::path& index) {
  constexpr int ranks = 2;
  const Checkpoint checkpoint = read_checkpoint(from);
  std::vector<PlacedValue> values;
  std::vector<Tensor> tensors;
  for (const auto& [folder, list] : {std::pair{"weights", &checkpoint.weights}, {"optimizer", &checkpoint.optimizer}})
    for (const auto& [name, tensor] : *list) {
      const std::int64_t rows = tensor.shape().rank() > 0 ? tensor.shape()[0] : 1, half = rows / 2;
      for (const auto& [begin, end] : {std::pair{std::int64_t{0}, half}, {half, rows}}) {
        if (begin == end) continue;
        const AxisRuns runs = end - begin == rows ? AxisRuns{} : AxisRuns{std::vector<IndexRun>{{begin, end}}};
        Tensor part({tensor.dtype(), shape_of(tensor.shape(), runs)});
        const std::int64_t row = tensor.byte_size() / rows;
        std::ranges::copy(tensor.bytes().subspan(static_cast<std::size_t>(begin * row), static_cast<std::size_t>((end - begin) * row)),
                          part.write().begin());
        tensors.push_back(std::move(part));
        values.push_back({.folder = folder, .name = name, .type = tensor.type(), .runs = runs, .part = begin == 0 ? 0U : 1U});
      }
    }
  std::vector<CheckpointPart> parts;
  std::vector<std::string> names;
  for (int r = 0; r < ranks; ++r) {
    const auto part = static_cast<std::size_t>(r);
    const PartHeader header = lay_out(values, part);
    names.push_back(name_of_part(1, 0, r, ranks));
    WrittenPart written =
        write_part(folder_of_parts(index) / names.back(), header, values, part, [&](std::size_t i) { return tensors[i]; });
    written.file.commit();
    parts.push_back({names.back(), header.file_bytes, written.crc32c});
  }
  write_index(index, checkpoint.state, json_of_parts(parts, values));
  return names;
}

}  // namespace tandem::fuzz
