// Options of devices, sizes and kernels.
#pragma once
#include <map>

#include "base/units.h"
#include "graph/tensor.h"
#include "kernels/kernel.h"
#include "kernels/precision.h"
#include "options/flag.h"
#include "planner/place/parallel.h"
#include "planner/recompute/recompute.h"

namespace tandem {

std::map<std::string, int> read_axes(const FlagRow&, const std::string& text);
std::map<std::string, Tensor> read_constants(const FlagRow&, const std::string& text);

inline Parallelism read_parallelism(const FlagRow&, const std::string& text) { return parse_parallelism(text); }
inline PipelineSchedule read_pipeline_schedule(const FlagRow&, const std::string& text) { return parse_pipeline_schedule(text); }
inline std::vector<std::string> read_stages(const FlagRow&, const std::string& text) { return parse_stages(text); }
inline std::vector<Parallelism::Split> read_splits(const FlagRow&, const std::string& text) { return parse_splits(split(text, ',')); }

inline std::optional<MemoryBudget> read_memory_budget(const FlagRow&, const std::string& text) {
  if (text.empty()) return std::nullopt;
  return parse_memory_budget(text);
}

inline std::vector<std::int64_t> read_sizes(const FlagRow& row, const std::string& text) {
  std::vector<std::int64_t> sizes;
  for (const std::string& size : split(text, ',')) sizes.push_back(parse_bytes(size, row.told()));
  return sizes;
}

struct Offloaded {
  bool optimizer = false, activations = false;
  bool any() const { return optimizer || activations; }
};
inline Offloaded read_offloaded(const FlagRow& row, const std::string& text) {
  static constexpr std::string_view words[] = {"none", "optimizer", "activations"};
  Offloaded offloaded;
  if (text == words[0]) return offloaded;
  for (const std::string& word : split(text, ',')) {
    if (word != words[1] && word != words[2]) refuse_word(row, word, words);
    (word == words[1] ? offloaded.optimizer : offloaded.activations) = true;
  }
  return offloaded;
}

inline constexpr FlagWord<std::optional<LayoutPreference>> layouts[] = {
    {"auto", std::nullopt}, {"blocked", LayoutPreference::blocked}, {"channels-last", LayoutPreference::channels_last}};
inline constexpr auto number_formats = [] {
  std::array<FlagWord<Precision>, std::size(precisions)> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = {name_of(precisions[i]), precisions[i]};
  return words;
}();

struct DeviceFlags : FlagGroup {
  constexpr DeviceFlags() : FlagGroup("devices, batch and kernels") {}
  Flag<std::string> devices{*this, "devices", "LIST", "", "devices: cpu, cpu:0-3, cuda:0, cuda:0*4, /GPU:0, separated by commas, or for a plan alone h100:0-7 and others of tandem devices --known; a number N: the first N GPUs, without GPUs N CPU devices; all (default all GPUs, without GPUs cpu; of --processes one each)"};
  Flag<std::string> place{*this, "place", "NAME=DEVICES", "", "puts nodes and parameters on devices: 'encoder.layer.[0-5].*=cpu:0;fc*=cpu:1', by names of nodes, parameters or modules (with *, ? and [0-5]); the first match counts, all others go where their operands are", {.separator = ';'}};
  Flag<std::string> configuration{*this, "configuration", "NAME", "", "which of the file's device configurations (ONNX IR 11) says where nodes and weights lie; none: the file says nothing of it (default: the one for as many devices, where no other option says it)"};
  Flag<std::string> slice_weights{*this, "slice-weights", "LIST", "", "each device's share of a batch, such as 2,1,1 (default equal); auto: the shortest step, memory: as each holds"};
  Flag<Parallelism> parallel{*this, "parallel", "FACTORS", "", "how devices share the work: data=2,tensor=4 are two replicas of four devices that share layers; pipeline=4 are four stages, each with a part of the model; one factor may be *; zero=1, 2 or 3 keeps the optimizer's states, and parameters, in parts (default data=*)", read_parallelism};
  Flag<std::int64_t> micro_batches{*this, "micro-batches", "N", "1", "equal parts of a training batch, one after another through a pipeline's stages or on one device; gradients add up", whole<1, 65536>};
  Flag<PipelineSchedule> schedule{*this, "schedule", "NAME", "1f1b", "the order in which a pipeline's stages do micro-batches: 1f1b, gpipe, interleaved=V (each stage has V parts of the model) or zb-h1", read_pipeline_schedule};
  Flag<std::vector<std::string>> stage{*this, "stage", "NAMES;NAMES", "", "what each stage of a pipeline has: 'layer.[0-5].*;layer.[6-9].*;rest', names as those of --place, several of a stage separated by commas; rest: what no other names (default: cut by estimated times)", read_stages, {.separator = ';'}};
  Switch gather{*this, "gather", on, "let devices gather what a node cannot compute of the parts that they have; off: such a node is an error"};
  Switch log_placement{*this, "log-placement", off, "print for each node its devices, the placement of its result, and the values that move for it, with the reason", {.scope = FlagScope::call}};
  Flag<std::vector<std::int64_t>> device_memory{*this, "device-memory", "SIZE", "", "limit of a plan's memory on a device, such as 512MiB: one for all, or one for each device, separated by commas (default: the free memory)", read_sizes};
  Flag<std::int64_t> batch_size{*this, "batch-size", "N", "32", "samples of a batch, over all devices", whole<1>, {.field = "batch"}};
  Flag<std::vector<std::string>> dim{*this, "dim", "NAME=SIZE", "", "sizes of other symbolic dimensions, separated by commas; 'NAME=32|64|128': each training batch takes the smallest that holds it", {.field = "dims"}};
  Flag<std::map<std::string, int>> batch_axis{*this, "batch-axis", "INPUT=AXIS", "", "the axis along which an input of the file holds its samples, none for one that holds none, separated by commas (default: found out); data has samples first", read_axes};
  Flag<std::map<std::string, Tensor>> set{*this, "set", "INPUT=VALUE", "", "an input's value, the same in every batch: a number, numbers separated by |, or FILE.npy; separated by commas", read_constants};
  Flag<std::optional<std::int64_t>> max_loop_iterations{*this, "max-loop-iterations", "N", "", "most iterations of loops whose end is computed from data and which do not say how many they can take"};
  Flag<std::optional<LayoutPreference>> layout{*this, "layout", "NAME", "auto", "memory layout: auto, blocked or channels-last", one_of<layouts>};
  Switch winograd{*this, "winograd", on, "use Winograd's convolution, which rounds a little differently"};
  Switch deterministic{*this, "deterministic", off, "the same result in every run: only kernels that give it, chosen by estimates, without timing them"};
  Flag<std::string> tuning_cache{*this, "tuning-cache", "FILE", "", "where measured kernel times are kept (default in $TANDEM_CACHE or the user's cache folder)", {.scope = FlagScope::rank, .paths = true}};
  Switch retune{*this, "retune", off, "time kernels again although their times are cached; the shorter time is kept, and a plan may change. Disturbed times are measured again without it, once the machine is quiet", {.scope = FlagScope::call}};
  Flag<std::vector<std::string>> without_kernels{*this, "without-kernels", "NAMES", "", "kernels to leave out, those whose names begin so, separated by commas: where one of a library is found to be wrong (plan --format json names them)"};
  Flag<std::vector<std::string>> without_pass{*this, "without-pass", "NAMES", "", "passes of the planner to leave out, separated by commas: to find the one that is at fault (plan --dump-passes lists them)", {.field = "without_passes"}};
  Flag<Precision> precision{*this, "precision", "NAME", "fp32", "fp32, tf32 (GPUs), bf16 or fp16 with float32 weights, fp8 (experimental: bf16 with products in 8 bits); the model stays float32", one_of<number_formats>};
};
inline constexpr DeviceFlags device_flags;

// Of commands that train or plan; those that evaluate have another --split, and parameters lie as training left them.
struct PlacementFlags : FlagGroup {
  Flag<std::vector<Parallelism::Split>> split{*this, "split", "NAME=AXIS:DIMENSION", "", "splits parameters or inputs whose names match (with * and ?) over an axis of the mesh, such as fc1.weight=tensor:0; separated by commas", read_splits};
  Switch weight_gradients_beside{*this, "weight-gradients-beside", off, "training on one GPU: compute gradients of weights on a second stream, beside the rest of the backward pass. The same numbers, for the activations of about one layer more; has not been timed on a GPU"};
  Flag<std::optional<MemoryBudget>> memory_budget{*this, "memory-budget", "SIZE", "", "limit of a training plan's memory on a device: 8GiB (for several 8GiB,4GiB), fit (the free memory), or a share of the activations such as 50%; the cheapest activations are computed again for the backward pass", read_memory_budget};
  Flag<std::vector<std::string>> recompute{*this, "recompute", "NAMES", "", "nodes or modules (with *, ? and [0-5]; separated by commas) whose results are computed again for the backward pass and not kept"};
  Flag<std::string> weights_on{*this, "weights-on", "DEVICE", "", "device on which trained weights and optimizer states live and are updated; each step sends the weights to the others and sums gradients there; without it every device has them", {.field = "weights_on"}};
  Flag<std::string> merge{*this, "merge", "DEVICE", "", "device to which the outputs of all replicas go, and which computes the loss of the whole batch (Keras's cpu_merge); without it each computes the loss of its samples", {.field = "merge_on"}};
  Flag<Offloaded> offload{*this, "offload", "WHAT", "none", "what GPUs leave to host memory: optimizer (trained weights and the optimizer's states, which the CPU updates; each step sends weights and gradients over the host link), activations (sent there in the forward pass and back for the backward pass), or optimizer,activations", read_offloaded};
};
inline constexpr PlacementFlags placement_flags;

// Of commands that only run a model; those that plan and train say more of it.
struct TimingFlags : FlagGroup {
  Switch autotune{*this, "autotune", off, "time kernels and choose the fastest", {.scope = FlagScope::command}};
};
inline constexpr TimingFlags timing_flags;

}  // namespace tandem
