// What a command's options mean for prepare(), with what it says on the way.
#pragma once
#include "cli/command.h"
#include "ranks/world.h"
#include "trainer/prepare.h"

namespace tandem {

// They refer to `call`.
RunOptions run_options(const Invocation& call, Purpose purpose, World* world = nullptr);
RunOptions training_options(const Invocation& call, const Model& model, World* world);

}  // namespace tandem
