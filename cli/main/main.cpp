#include <malloc.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "cli/command.h"

namespace {

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Freed tensors go back to the system; by default the C library keeps ever larger ones once it has freed one.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");
  tandem::Streams streams{std::cin, std::cout, std::cerr, terminal, terminal && !(no_colour && *no_colour), isatty(STDOUT_FILENO) != 0, terminal_columns};
  return tandem::run(arguments, streams, [](const std::string& name) { return std::getenv(name.c_str()); });
}
