// What `tandem train` is going to write, checked before anything is trained. Of several ranks only the first writes.
#pragma once
#include "cli/command.h"
#include "trainer/model.h"
#include "trainer/records/run_lock.h"

namespace tandem {

// Fails (usage, io) where a file of the command line could not be written. The run's folder is this process's as long as the
// lock is held. A dry run finds the same and makes nothing.
RunLock check_outputs(const Invocation& call, World* world, bool dry);

SaveOptions save_options(const Arguments& a);

// Writes the model, or what --lora-export asks for in its place or besides: NAME.onnx, NAME.inputs.onnx, NAME.onnx_adapter. Returns what
// was written.
std::vector<std::string> save_outputs(const Arguments& a, const Model& model, const std::filesystem::path& path, SaveOptions options);

// Fails (io) where what the export needs is missing: the template's external data, a name for the output's, room on the disk.
void check_export(const Arguments& a, const Model& model);

// Fails (io) where there is no room for the model and for the checkpoints beside it: the last, the one before and the next.
void check_room(const Arguments& a, const Model& model, const Plan& plan);

// Fails (usage) where the step cannot be written into the model, before it is trained.
void check_training_info(const Arguments& arguments, const Model& model, double rate);
// The graph that --also-training-graph asks for. A disk that refuses it is a warning: training goes on.
void write_training_graph(const Invocation& call, const std::string& path, const std::string& graph);

}  // namespace tandem
