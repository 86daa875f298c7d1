// How a training ends: what is written, what is kept of one that was stopped or could not be written, and what is told of it.
#pragma once
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/train_job.h"
#include "ranks/world.h"
#include "trainer/model.h"

namespace tandem {

inline constexpr int signal_exit = 128;  // plus the signal's number

// Where the weights of a run go that was stopped: beside its output.
std::string unfinished(const std::filesystem::path& output);

// Where a run was stopped: with a folder it can go on, else what it has goes beside the output, which stays as it is. Returns the exit
// code.
int stopped(const Invocation& call, Model& model, const History& history, const Prepared& job, const Interrupt& interrupt, World* world);

// Writes what --keep and --export ask for, and returns the files. Where that fails the weights are kept elsewhere, and the failure says
// where.
std::vector<std::string> write_trained(const Invocation& call, Model& model, const Prepared& job, const History& history, World* world);

// Measures what was written, and tells what the run came to. Fails (io) where it has no checkpoint at all. Returns the exit code.
int tell_result(const Invocation& call, Model& model, const Prepared& job, const History& history, const std::vector<std::string>& written,
                const Interrupt& interrupt);

}  // namespace tandem
