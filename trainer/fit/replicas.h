// Whether replicas still hold the same parameters. They do after every step, bit for bit, unless memory or a line is
// damaged where nothing else sees it, or a device computes wrongly: then they would train on as different models.
#pragma once
#include "ranks/world.h"
#include "runtime/session.h"

namespace tandem {

// Compares the parameters of all devices, also of other ranks, by checksums; all ranks call it alike. Fails (device) naming
// the device that has others than most, `step`, and the first parameter that differs.
void check_replicas(const Session& session, World* world, std::int64_t step);

}  // namespace tandem
