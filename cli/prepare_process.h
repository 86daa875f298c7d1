// How a process that trains sets up the C and OpenMP libraries: the program's, and the benchmarks' so that they time what it does.
#pragma once

namespace tandem {

// First in main, before OpenMP's threads exist. May start the process's program once more, with the same arguments.
void prepare_process(char** argv);

}  // namespace tandem
