// Trains a model on rendered digits with two CPU devices:  train_lenet lenet.onnx trained.onnx
#include <tandem/tandem.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: train_lenet MODEL.onnx OUTPUT.onnx\n");
    return 2;
  }
  tandem::ModelOptions options;
  options.init = "he-normal";
  options.plan.batch = 64;
  options.plan.devices = tandem::parse_devices("cpu:0-1");  // or "cuda:0"
  options.plan.optimizer = tandem::optimizer_defaults("sgd");
  options.plan.optimizer.momentum = 0.9;

  tandem::Model model = tandem::Model::load(argv[1]);
  model.compile(options, tandem::backends());
  const tandem::Splits data = tandem::open_data("synthetic:digits,train=4000,test=1000", model.data_request());

  tandem::FitOptions fit;
  fit.epochs = 2;
  fit.learning_rate = 0.05;
  fit.callbacks.on_epoch = [](const tandem::EpochReport& e) {
    std::printf("epoch %d: loss %.4f, %.0f samples/s\n", static_cast<int>(e.epoch), e.loss, e.samples_per_second);
  };
  model.fit(*data.train, fit);
  std::printf("accuracy on held-out digits: %.1f%%\n", 100 * model.evaluate(*data.test).accuracy);
  model.save(argv[2]);
} catch (const tandem::Error& error) {
  std::fprintf(stderr, "train_lenet: %s\n", error.what());
  return static_cast<int>(error.code());
}
