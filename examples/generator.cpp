// Trains on samples that are made while they are asked for: a data set of one's own.  generator MODEL.onnx OUTPUT.onnx
#include <tandem/tandem.h>

#include <cmath>
#include <cstdio>

// Points of a plane and the ring they lie on, from the sample's number alone: the same for every thread, epoch and run.
class Rings final : public tandem::Dataset {
 public:
  std::string name() const override { return "rings"; }
  std::int64_t size() const override { return 10'000; }
  std::span<const tandem::Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    for (const std::int64_t i : samples) {
      const std::int64_t ring = i % 2;
      const auto radius = static_cast<float>(ring + 1), angle = static_cast<float>(i);
      if (field == 1) {
        *reinterpret_cast<std::int64_t*>(to) = ring;
        to += sizeof ring;
        continue;
      }
      for (const float v : {radius * std::cos(angle), radius * std::sin(angle)}) {
        *reinterpret_cast<float*>(to) = v;
        to += sizeof v;
      }
    }
  }

 private:
  std::vector<tandem::Field> fields_{{.name = "x", .sample = {tandem::DType::float32, {2}}},
                                     {.name = "ring", .role = tandem::Role::label, .sample = {tandem::DType::int64, {}}}};
};

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: generator MODEL.onnx OUTPUT.onnx   (a classifier of 2 numbers)\n");
    return 2;
  }
  tandem::RunOptions options{.splits = {.train = std::make_unique<Rings>()}};
  options.model.plan = {.batch = 50, .devices = tandem::parse_devices("cpu"), .optimizer = tandem::optimizer_defaults("adam")};
  options.fit = {.epochs = 3, .learning_rate = 0.01};
  options.fit.callbacks.on_epoch = [](const tandem::EpochReport& e) { std::printf("loss %.4f\n", e.loss); };
  options.on_note = [](const std::string& text) { std::printf("note: %s\n", text.c_str()); };
  tandem::Model model = tandem::Model::load(argv[1]);
  const tandem::Prepared run = tandem::prepare(model, std::move(options), tandem::backends());
  model.compile(run.options, tandem::backends());
  model.fit(*run.data.train, run.fit);
  std::printf("accuracy: %.1f%%\n", 100 * model.evaluate(*run.data.train, run.measuring()).accuracy);
  model.save(argv[2]);
} catch (const tandem::Error& error) {
  std::fprintf(stderr, "generator: %s\n", error.what());
  return static_cast<int>(error.code());
}
