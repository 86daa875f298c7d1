// --devices as a list, where somebody left it open.
#pragma once
#include "cli/command.h"

namespace tandem {

// `processes`: that share the devices. `tell`: a line says what was assumed.
Arguments with_devices(const Invocation& call, std::int64_t processes, bool tell);

}  // namespace tandem
