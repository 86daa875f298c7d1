// Options of what a model is trained for and measured by.
#pragma once
#include "options/flag.h"

namespace tandem {

std::string names_of_losses(const FlagRow&);
std::string names_of_metrics(const FlagRow&);

// Those that labels must be known by.
struct LossFlags : FlagGroup {
  constexpr LossFlags() : FlagGroup("loss and metrics") {}
  Flag<std::string> loss{*this, "loss", "NAME", "softmax-cross-entropy", "{} (the model computes it); PyTorch's and Keras's names, too. With parameters: huber:delta=0.5. Of several outputs, with weights: out1=mse*0.3,out2=softmax-cross-entropy. FILE.onnx computes one number, or one for each sample, from outputs, labels and sample weights, by its inputs' names", {.paths = true, .names = names_of_losses}};
  Flag<std::string> loss_on{*this, "loss-on", "VALUE", "", "the model's value that the loss is computed on (default its first output)"};
  Flag<std::optional<std::int64_t>> class_axis{*this, "class-axis", "N", "", "axis of that value that holds the classes (default: as labels and softmax say, else 1)", any_whole};
  Flag<std::optional<std::int64_t>> ignore_index{*this, "ignore-index", "N", "", "a class index that does not count, such as -100 or a padding's: the loss is the mean over the others", any_whole};
  Switch shift_labels{*this, "shift-labels", off, "next-token prediction: the label of a token is the token after it; data without labels uses the model's own input tokens"};
};
inline constexpr LossFlags loss_flags;

// An optional's words: "auto" leaves it open.
inline constexpr FlagWord<std::optional<bool>> running_variances[] = {{"auto", std::nullopt}, {"population", false}, {"unbiased", true}};

// Of commands that plan a training.
struct TargetFlags : FlagGroup {
  Flag<double> label_smoothing{*this, "label-smoothing", "X", "0", "share of a label that is spread evenly, with softmax- and binary-cross-entropy"};
  Flag<std::string> class_weights{*this, "class-weights", "LIST", "", "balanced, a weight for each class (1,2,0.5), or a file of them: the loss is divided by the weights' sum, as in PyTorch", {.paths = true}};
  Flag<std::string> teacher{*this, "teacher", "FILE.onnx", "", "learn from this model's scores, too: distillation; it is run beside the model and stays as it is", {.paths = true}};
  Flag<std::optional<double>> temperature{*this, "temperature", "T", "", "what the scores of model and teacher are divided by (default 2)"};
  Flag<std::optional<double>> teacher_weight{*this, "teacher-weight", "X", "", "share of what is learnt of the teacher, T^2 KL(teacher, model), in the loss (default 0.5); the rest is the loss itself"};
  Switch sample_weights{*this, "sample-weights", on, "count samples by their weights in the loss where the data has some; it is divided by their sum"};
  Flag<std::optional<double>> loss_scale{*this, "loss-scale", "X", "", "start of the loss scale, 0 for none (default 65536 with fp16, else none); it follows the gradients"};
  Switch dense_labels{*this, "dense-labels", off, "labels have the output's shape (found out from the data where there is some)"};
  Flag<std::int64_t> bucket_bytes{*this, "bucket-bytes", "N", "26214400", "largest all-reduce bucket"};
  Switch sync_batch_norm{*this, "sync-batch-norm", off, "BatchNormalization over all devices' samples", {.field = "synchronize_batch_norm"}};
  Flag<std::optional<bool>> running_variance{*this, "running-variance", "NAME", "auto", "what BatchNormalization's running variance follows: population, the batch's own variance, as ONNX has it, or unbiased, n/(n-1) times that, as PyTorch has it (auto: unbiased where the file says that PyTorch made it)", one_of<running_variances>};
};
inline constexpr TargetFlags target_flags;

struct MetricFlags : FlagGroup {
  Flag<std::vector<std::string>> metrics{*this, "metrics", "LIST", "auto", "metrics besides loss and accuracy, separated by commas: {} (auto: what is usual for the loss)", {.names = names_of_metrics}};
  Flag<std::vector<std::string>> metric{*this, "metric", "FILE.onnx", "", "metrics besides those that ONNX files compute, as a loss does (several separated by commas): the mean over all samples", {.paths = true}};
};
inline constexpr MetricFlags metric_flags;

}  // namespace tandem
