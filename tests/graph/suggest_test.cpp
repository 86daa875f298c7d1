#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

TEST(Suggest, NamesWhatWasMeant) {
  const std::vector<std::string> options{"momentum", "weight-decay", "lr", "batch-size", "devices", "data", "output", "run-dir"};
  const std::vector<std::string> losses{"softmax-cross-entropy", "binary-cross-entropy", "mse", "l1", "output"};
  const std::vector<std::string> inits{"keep", "he-normal", "glorot-uniform"};
  const std::vector<std::string> operators{"LRN", "Relu", "Conv", "Gemm", "LeakyRelu"};
  const std::vector<std::string> training{"validation-split", "early-stopping", "precision", "epochs"},
      commands{"train", "evaluate", "predict", "summary"};
  const struct {
    const char* word;
    const std::vector<std::string>& among;
    const char* want;
  } rows[] = {
      {"momentun", options, "momentum"},
      {"weight_decay", options, "weight-decay"},
      {"WeightDecay", options, "weight-decay"},
      {"learning-rate", options, "lr"},
      {"learning_rate", options, "lr"},
      {"batch", options, "batch-size"},
      {"gpus", options, "devices"},
      {"device", options, "devices"},
      {"outptu", options, "output"},
      {"zebra", options, ""},
      {"", options, ""},
      {"crossentropy", losses, "softmax-cross-entropy"},
      {"cross-entropy", losses, "softmax-cross-entropy"},
      {"CrossEntropyLoss", losses, "softmax-cross-entropy"},
      {"bce", losses, "binary-cross-entropy"},
      {"entropy", losses, "softmax-cross-entropy"},
      {"L2", losses, "mse"},
      {"L2", options, "weight-decay"},
      {"MAE", losses, "l1"},
      {"xavier", inits, "glorot-uniform"},
      {"kaiming_normal", inits, "he-normal"},
      {"he", inits, "he-normal"},
      {"val", training, "validation-split"},
      {"patience", training, "early-stopping"},
      {"fp16", training, "precision fp16"},
      {"fit", commands, "train"},
      {"export", commands, "train"},
      {"val", commands, "evaluate"},
      {"infer", commands, "predict"},
      {"Relluu", operators, "Relu"},
      {"relu", operators, "Relu"},
      {"Convolution", operators, "Conv"},
      {"Frobnicate", operators, ""},
  };
  for (const auto& row : rows) EXPECT_EQ(nearest(row.word, row.among), row.want) << row.word;
  EXPECT_EQ(suggestion("xavier", inits), ", did you mean 'glorot-uniform'?");
  EXPECT_EQ(suggestion("zebra", inits), " (known: keep, he-normal, glorot-uniform)");
}

}  // namespace
}  // namespace tandem
