// First by a table of names that other programs use, then by how few edits turn the word into a known one.
#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

// Names that other programs have for what is called otherwise here, as plain() writes them. A word may stand for several:
// the first that the candidates have is meant. A name may end with an option's value: "precision fp16".
struct Synonym {
  std::string_view word, name;
};
constexpr Synonym synonyms[] = {
    // options
    {"learningrate", "lr"}, {"learningrateschedule", "lr-schedule"}, {"scheduler", "lr-schedule"}, {"lrscheduler", "lr-schedule"},
    {"batch", "batch-size"}, {"bs", "batch-size"}, {"minibatch", "batch-size"}, {"batchsizeeval", "eval-batch-size"},
    {"wd", "weight-decay"}, {"l2", "weight-decay"}, {"decay", "weight-decay"}, {"eps", "epsilon"}, {"optim", "optimizer"},
    {"gpu", "devices"}, {"gpus", "devices"}, {"workers", "processes"}, {"np", "processes"}, {"nproc", "processes"},
    {"dataset", "data"}, {"input", "data"}, {"valsplit", "validation-split"}, {"criterion", "loss"},
    {"out", "output"}, {"save", "output"}, {"iterations", "steps"}, {"maxsteps", "steps"}, {"numepochs", "epochs"},
    {"dtype", "precision"}, {"amp", "precision"}, {"initializer", "init"}, {"initialization", "init"},
    {"outdir", "run-dir"}, {"outputdir", "run-dir"}, {"logdir", "run-dir"}, {"checkpointdir", "run-dir"}, {"force", "overwrite"},
    {"continue", "resume"}, {"restart", "resume"}, {"syncbn", "sync-batch-norm"},
    {"val", "validation-split"}, {"validation", "validation-split"}, {"patience", "early-stopping"}, {"earlystop", "early-stopping"},
    {"earlystoppingpatience", "early-stopping"}, {"device", "devices"}, {"warmup", "lr-schedule"}, {"loglevel", "verbose"}, {"v", "verbose"},
    {"fp16", "precision fp16"}, {"bf16", "precision bf16"}, {"fp8", "precision fp8"}, {"tf32", "precision tf32"}, {"half", "precision fp16"},
    {"cpu", "devices cpu"}, {"cuda", "devices cuda:0"}, {"adam", "optimizer adam"}, {"adamw", "optimizer adamw"}, {"sgd", "optimizer sgd"},
    {"pretrained", "init keep"}, {"gradaccum", "accumulate"}, {"gradientaccumulationsteps", "accumulate"}, {"gradclip", "clip-norm"},
    {"maxgradnorm", "clip-norm"}, {"numworkers", "workers"}, {"numclasses", "head"}, {"export", "output"},
    // commands
    {"fit", "train"}, {"finetune", "train"}, {"export", "train"}, {"eval", "evaluate"}, {"test", "evaluate"}, {"val", "evaluate"},
    {"validate", "evaluate"}, {"score", "evaluate"}, {"infer", "predict"}, {"inference", "predict"}, {"run", "predict"}, {"info", "summary"},
    {"inspect", "summary"}, {"show", "summary"}, {"compile", "plan"}, {"compare", "runs"}, {"history", "runs"}, {"gpus", "devices"},
    // losses
    {"ce", "softmax-cross-entropy"}, {"crossentropy", "softmax-cross-entropy"}, {"nll", "softmax-cross-entropy"},
    {"categoricalcrossentropy", "softmax-cross-entropy"}, {"sparsecategoricalcrossentropy", "softmax-cross-entropy"},
    {"crossentropyloss", "softmax-cross-entropy"}, {"bce", "binary-cross-entropy"}, {"bcewithlogits", "binary-cross-entropy"},
    {"sigmoidcrossentropy", "binary-cross-entropy"}, {"l2", "mse"}, {"meansquarederror", "mse"}, {"mae", "l1"},
    {"meanabsoluteerror", "l1"},
    // first weights
    {"xavier", "glorot-uniform"}, {"xavieruniform", "glorot-uniform"}, {"glorot", "glorot-uniform"}, {"kaiming", "he-normal"},
    {"kaimingnormal", "he-normal"}, {"he", "he-normal"}, {"msra", "he-normal"}, {"none", "keep"},
    // number formats, layouts, plan formats
    {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}, {"float8", "fp8"}, {"float32", "fp32"}, {"float", "fp32"}, {"single", "fp32"},
    {"nhwc", "channels-last"}, {"graphviz", "dot"}, {"binary", "plan"},
    // optimizers and schedules
    {"momentum", "sgd"}, {"nesterov", "sgd"}, {"cosineannealing", "cosine"},
    // operators
    {"convolution", "Conv"}, {"conv2d", "Conv"}, {"dense", "Gemm"}, {"batchnorm", "BatchNormalization"}, {"layernorm", "LayerNormalization"},
    {"groupnorm", "GroupNormalization"}, {"permute", "Transpose"}, {"view", "Reshape"},
};

// Small letters and digits alone.
std::string plain(std::string_view word) {
  std::string text;
  for (const unsigned char c : word)
    if (std::isalnum(c)) text += static_cast<char>(std::tolower(c));
  return text;
}

// Insertions, deletions, replacements and swaps of neighbours that turn a into b.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> n(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        n[i][j] = i + j;
        continue;
      }
      n[i][j] = std::min({n[i - 1][j - 1] + (a[i - 1] != b[j - 1]), n[i - 1][j] + 1, n[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) n[i][j] = std::min(n[i][j], n[i - 2][j - 2] + 1);
    }
  return n[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string wanted = plain(word);
  const auto has = [&](std::string_view name) { return std::find(candidates.begin(), candidates.end(), name) != candidates.end(); };
  for (const std::string& candidate : candidates)
    if (!wanted.empty() && plain(candidate) == wanted) return candidate;
  for (const Synonym& s : synonyms)
    if (s.word == wanted && has(s.name.substr(0, s.name.find(' ')))) return std::string(s.name);
  std::string best;
  std::size_t least = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& candidate : candidates)
    if (const std::size_t n = edits(wanted, plain(candidate)); n < least) {
      least = n;
      best = candidate;
    }
  constexpr std::size_t telling = 4;  // letters that do not stand in many names by chance
  for (const std::string& candidate : candidates)
    if (best.empty() && wanted.size() >= telling && plain(candidate).find(wanted) != std::string::npos) best = candidate;
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = nearest(word, candidates);
  if (!near.empty()) return concat(", did you mean '", near, "'?");
  std::string known;
  for (const std::string& candidate : candidates) known += (known.empty() ? "" : ", ") + candidate;
  return concat(" (known: ", known, ")");
}

}  // namespace tandem
