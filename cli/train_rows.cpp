#include "cli/train_rows.h"

namespace tandem {

std::vector<OptionRow> run_rows() {
  return {
      {"", "training", "", ""},
      {"epochs", "N", "1", "times through the data (with --steps alone: as many as those take)"},
      {"steps", "N", "0", "stop after so many steps (0: no limit)"},
      {"validation-split", "SHARE", "0", "hold out this share of the training data and measure it after each epoch"},
      {"augment", "LIST", "", "crop[=PIXELS] (of image files a random box; else, or with PIXELS, pad, 4, then crop at random), flip, vflip, rotate[=DEGREES], jitter, hue, grey, erase, randaugment[=[TIMESx]MAGNITUDE], trivial, mixup[=ALPHA], cutmix[=ALPHA]; or a recipe: imagenet (crop,flip), cifar (crop=4,flip), torchvision (crop,flip,trivial,erase=0.1,mixup,cutmix)"},
      {"shuffle", "", "on", "shuffle the data anew for every epoch"},
      {"init", "NAME", "auto", "first weights: keep (the template's), he-normal, glorot-uniform, training-info (the file's initialization), or auto: keep them unless the template holds none"},
      {"seed", "N", "1", "of weights, order, augmentation and dropout"},
      {"eval-batch-size", "N", "0", "batch of evaluations (0: as in training)"},
      {"grace", "SECONDS", "10", "how long a step may go on after a signal that asks to end, before the run ends with its last checkpoint"},
      {"check-replicas", "N", "1000", "compare the devices' parameters every N steps and before each checkpoint (0: never)"},
      {"", "output", "", ""},
      {"keep-external-layout", "", "off", "external data in files of the template's names, not in one named after --output"},
      {"keep", "NAME", "last", "which weights to write: last, or best by validation"},
      {"output", "FILE", "trained.onnx", "the trained model"},
      {"lora-export", "LIST", "merged", "how adapters are written: merged (into the weights), inputs (the model takes them as inputs, with their file; NAME.inputs.onnx beside a merged one), adapter (their file alone, NAME.onnx_adapter, ONNX Runtime's format)"},
      {"metadata", "", "on", "write into the model how its data was prepared (tandem.* in its metadata), which evaluate and predict go by"},
      {"export-training-info", "", "off", "write the training step into the model, in ONNX's words (training_info): label, loss, Gradient, optimizer and its states"},
      {"also-training-graph", "FILE", "", "write the training graph as ONNX, for a viewer"},
      {"autotune", "", "on", "time kernels and choose the fastest (not with --deterministic)"},
      {"dry-run", "", "off", "check everything and show the plan, train nothing"},
      {"verbose", "", "off", "show the plan and the reason of each choice when the run begins (the run folder's plan.txt holds them)"},
  };
}

}  // namespace tandem
