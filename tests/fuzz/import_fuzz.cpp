// libFuzzer target: any bytes as a model, built at the file's own batch and at another, shown and reported.
#include <cstddef>
#include <cstdint>
#include <string>

#include "importer/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  try {
    const ModelFile model = ModelFile::parse(std::string(reinterpret_cast<const char*>(data), size), {});
    for (const std::int64_t batch : {0, 3}) {
      const ImportOptions options{.batch = batch, .fold_limit = std::int64_t{1} << 16};
      if (!model.problems(options).empty()) continue;
      const Graph graph = model.graph(options);
      verify(graph);
      onnx_of(graph);
    }
  } catch (const Error&) {
  }
  return 0;
}
