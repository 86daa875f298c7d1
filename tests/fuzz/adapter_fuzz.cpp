// Any bytes as an adapter file (.onnx_adapter): read, and put into the model that `adapted_model` gives, which is then trained a step,
// written with the adapters merged and as inputs, and its adapters written anew.
#include "kernels/cpu/backend.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_run.h"
#include "trainer/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  return fuzz::run([&] {
    static const Backend* const backends[] = {&cpu_backend()};
    WeightOptions weights;
    weights.lora = LoraOptions{.from = fuzz::write("one.onnx_adapter", fuzz::text_of(data, size))};
    Model model(ModelFile::parse(fuzz::small_model_bytes(), {}, weights));
    ModelOptions options;
    options.plan.batch = 4;
    options.plan.devices = {{{"cpu", 0}}};
    model.compile(options, backends);
    const Splits splits = open_data("random,samples=4", model.data_request());
    model.fit(*splits.train, {.epochs = 0, .steps = 1, .learning_rate = 0.01});
    for (const bool inputs : {false, true})
      model.save(fuzz::folder() / "saved.onnx", true, {.overwrite = true, .adapters_as_inputs = inputs});
    model.save_adapter(fuzz::folder() / "saved.onnx_adapter");
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  fuzz::Random random(seed);
  std::string bytes = fuzz::text_of(data, size);
  fuzz::mutate_bytes(bytes, random);
  return fuzz::give(bytes, data, room);
}
