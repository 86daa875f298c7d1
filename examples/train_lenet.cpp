// Trains a model on rendered digits with two CPU devices:  train_lenet lenet.onnx trained.onnx
#include <tandem/tandem.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: train_lenet MODEL.onnx OUTPUT.onnx\n");
    return 2;
  }
  tandem::RunOptions options{.data = "synthetic:digits,train=4000,test=1000"};
  options.model.plan = {.batch = 64, .devices = tandem::parse_devices("cpu:0-1"), .optimizer = {.momentum = 0.9}};  // or "cuda:0"
  options.fit = {.epochs = 2, .learning_rate = 0.05};
  tandem::Model model = tandem::Model::load(argv[1]);
  const tandem::Prepared run = tandem::prepare(model, std::move(options), tandem::backends());
  model.compile(run.options, tandem::backends());
  model.fit(*run.data.train, run.fit);
  std::printf("accuracy on held-out digits: %.1f%%\n", 100 * model.evaluate(*run.data.test, run.measuring()).accuracy);
  model.save(argv[2]);
} catch (const tandem::Error& error) {
  std::fprintf(stderr, "train_lenet: %s\n", error.what());
  return static_cast<int>(error.code());
}
