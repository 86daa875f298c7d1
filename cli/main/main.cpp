#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "cli/command.h"

int main(int argc, char** argv) {
  // Freed tensors go back to the system; by default the C library keeps ever larger ones once it has freed one.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");
  tandem::Streams streams{std::cin, std::cout, std::cerr, terminal, terminal && !(no_colour && *no_colour)};
  return tandem::run(arguments, streams, [](const std::string& name) { return std::getenv(name.c_str()); });
}
