// Any bytes as a model with training_info: its step is taken up, trained with for two steps, and written with its states.
#include "kernels/cpu/backend.h"
#include "tests/fuzz/fuzz.h"
#include "trainer/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem;
  return fuzz::run([&] {
    if (size > 16 << 10) return;  // small models are enough to be wrong in
    static const Backend* const backends[] = {&cpu_backend()};
    ModelFile file = ModelFile::parse(fuzz::text_of(data, size), {});
    if (std::optional<ModelFile> first = file.initialization()) fuzz::run([&] { first->problems({}); });
    const std::optional<TrainingStep> step = file.training_step();
    if (!step || !file.problems({.batch = 4, .fold_limit = 1 << 16}).empty()) return;
    Model model(std::move(file));
    ModelOptions options;
    options.plan.batch = 4;
    options.plan.devices = {{{"cpu", 0}}};
    model.source().take_loss(*step, options);
    model.source().take_optimizer(*step, options);
    model.source().check(options, backends);
    const Splits splits = open_data("random,samples=4", model.data_request(options));
    model.source().fit_labels(options, *splits.train);
    model.compile(options, backends);
    model.fit(*splits.train, {.epochs = 0, .steps = 2, .learning_rate = step->learning_rate});
    const std::filesystem::path saved = fuzz::folder() / "saved.onnx";
    model.save(saved, true, {.overwrite = true});
    ModelFile::read(saved).training_step();
  });
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t room, unsigned seed) {
  using namespace tandem;
  static const std::vector<std::string> words{"",   "ai.onnx.preview.training", "Gradient", "Adam", "Momentum", "Adagrad", "xs",
                                              "zs", "y", "w", "loss", "alpha", "beta", "mode", "nesterov"};
  fuzz::Random random(seed);
  std::string model = fuzz::text_of(data, size);
  fuzz::mutate_message(model, model, words, random);
  return fuzz::give(model, data, room);
}
