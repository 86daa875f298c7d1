// Options of `tandem train` alone: how long it trains, from which weights, what it writes and what it records.
#pragma once
#include "options/flag.h"

namespace tandem {

struct TrainFlags : FlagGroup {
  constexpr TrainFlags() : FlagGroup("training") {}
  Flag<std::int64_t> epochs{*this, "epochs", "N", "1", "times through the data (with --steps alone: as many as those take)"};
  Flag<std::int64_t> steps{*this, "steps", "N", "0", "stop after so many steps (0: no limit)"};
  Flag<double> validation_split{*this, "validation-split", "SHARE", "0", "hold out this share of the training data and measure it after each epoch"};
  Flag<std::string> augment{*this, "augment", "LIST", "", "crop[=PIXELS] (of image files a random box; else, or with PIXELS, pad, 4, then crop at random), flip, vflip, rotate[=DEGREES], jitter, hue, grey, erase, randaugment[=[TIMESx]MAGNITUDE], trivial, mixup[=ALPHA], cutmix[=ALPHA]; or a recipe: imagenet (crop,flip), cifar (crop=4,flip), torchvision (crop,flip,trivial,erase=0.1,mixup,cutmix)"};
  Switch shuffle{*this, "shuffle", on, "shuffle the data anew for every epoch"};
  Flag<std::string> init{*this, "init", "NAME", "auto", "first weights: keep (the template's), he-normal, glorot-uniform, training-info (the file's initialization), or auto: keep them unless the template holds none"};
  Flag<std::int64_t> seed{*this, "seed", "N", "1", "of weights, order, augmentation and dropout"};
  Flag<std::int64_t> eval_batch_size{*this, "eval-batch-size", "N", "0", "batch of evaluations (0: as in training)"};
  Flag<double> grace{*this, "grace", "SECONDS", "10", "how long a step may go on after a signal that asks to end, before the run ends with its last checkpoint", not_negative};
  Flag<std::int64_t> check_replicas{*this, "check-replicas", "N", "1000", "compare the devices' parameters every N steps and before each checkpoint (0: never)"};
};
inline constexpr TrainFlags train_flags;

enum class KeptWeights { last, best };
inline constexpr FlagWord<KeptWeights> kept_weights[] = {{"last", KeptWeights::last}, {"best", KeptWeights::best}};

struct OutputFlags : FlagGroup {
  constexpr OutputFlags() : FlagGroup("output") {}
  Switch keep_external_layout{*this, "keep-external-layout", off, "external data in files of the template's names, not in one named after --output"};
  Flag<KeptWeights> keep{*this, "keep", "NAME", "last", "which weights to write: last, or best by validation", one_of<kept_weights>};
  Flag<std::string> output{*this, "output", "FILE", "trained.onnx", "the trained model", {.scope = FlagScope::place}};
  Flag<std::vector<std::string>> lora_export{*this, "lora-export", "LIST", "merged", "how adapters are written: merged (into the weights), inputs (the model takes them as inputs, with their file; NAME.inputs.onnx beside a merged one), adapter (their file alone, NAME.onnx_adapter, ONNX Runtime's format)"};
  Switch metadata{*this, "metadata", on, "write into the model how its data was prepared (tandem.* in its metadata), which evaluate and predict go by"};
  Switch export_training_info{*this, "export-training-info", off, "write the training step into the model, in ONNX's words (training_info): label, loss, Gradient, optimizer and its states"};
  Flag<std::string> also_training_graph{*this, "also-training-graph", "FILE", "", "write the training graph as ONNX, for a viewer", {.scope = FlagScope::place}};
  Switch autotune{*this, "autotune", on, "time kernels and choose the fastest (not with --deterministic)", {.scope = FlagScope::command}};
  Switch dry_run{*this, "dry-run", off, "check everything and show the plan, train nothing", {.scope = FlagScope::call}};
  Switch verbose{*this, "verbose", off, "show the plan and the reason of each choice when the run begins (the run folder's plan.txt holds them)", {.scope = FlagScope::call}};
};
inline constexpr OutputFlags output_flags;

struct RecordFlags : FlagGroup {
  constexpr RecordFlags() : FlagGroup("run folder and records") {}
  Flag<std::string> run_dir{*this, "run-dir", "DIR", "", "keep checkpoints, metrics, curves, the plans and config.json there (default runs/MODEL-N, none for none)"};
  Flag<std::int64_t> restart{*this, "restart", "N", "0", "start the ranks of --processes again when one is lost, at most N times: they go on from the last checkpoint of --run-dir", {.scope = FlagScope::call}};
  Switch resume{*this, "resume", off, "go on from --run-dir's last checkpoint, with the options of that run where none are given and with its plans", {.scope = FlagScope::call}};
  Switch overwrite{*this, "overwrite", off, "start anew in a --run-dir that holds a run; replace a file of external data beside --output", {.scope = FlagScope::call}};
  Flag<std::string> checkpoint_every{*this, "checkpoint-every", "N|TIME", "", "a checkpoint every N steps too, or so often: 90s, 10m, 1h (default after epochs only)", {.field = "checkpoint_steps"}};
  Flag<std::int64_t> checkpoint_steps{*this, "checkpoint-steps", "N", "0", "the older name of --checkpoint-every N"};
  Flag<std::int64_t> keep_checkpoints{*this, "keep-checkpoints", "N", "0", "keep the N latest checkpoints, as step-N.checkpoint, beside the last, the one before and the best"};
  Switch check_nan{*this, "check-nan", off, "look at all weights after every step, and find the first step and node that made what is no number"};
  Flag<std::string> profile{*this, "profile", "FILE", "", "write when each part of the third step was done there, as a trace for Perfetto or chrome://tracing, beneath what was planned, and tell the slowest kernels", {.scope = FlagScope::call}};
  Switch tensorboard{*this, "tensorboard", off, "write TensorBoard's event files into the run folder"};
  Switch histograms{*this, "histograms", off, "with histograms of all weights after every epoch"};
};
inline constexpr RecordFlags record_flags;

}  // namespace tandem
