#include <malloc.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <streambuf>

#include "cli/command.h"
#include "cli/interrupt.h"

namespace {

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// stdout. Where nobody reads any more (a pipe into `head`, a terminal that was closed) what follows is dropped and counts as
// written: that ends no training. Any other failure, such as a full disk, leaves the stream bad.
class Output final : public std::streambuf {
 public:
  Output() { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

 private:
  int overflow(int c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }
  int sync() override {
    for (const char* at = pbase(); at < pptr() && !unread_;) {
      const ssize_t n = ::write(STDOUT_FILENO, at, static_cast<std::size_t>(pptr() - at));
      if (n >= 0) {
        at += n;
      } else if (errno == EPIPE || (errno == EIO && terminal_)) {
        unread_ = true;
      } else if (errno == EAGAIN) {
        pollfd room{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
        ::poll(&room, 1, -1);
      } else if (errno != EINTR) {
        return -1;
      }
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }

  std::array<char, 1 << 16> buffer_{};
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  bool unread_ = false;
};

// OpenMP's threads spin while they wait, by default for longer than the system's time slices: beside other programs each
// waits for threads that wait their turn behind one that only spins. A short while bridges what lies between two kernels. The
// library reads its settings before main, so the program starts once more with this one, unless the user has chosen.
void spin_briefly(char** argv) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    if (std::getenv(name)) return;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || setenv("GOMP_SPINCOUNT", "2000", 0) != 0) return;
  execv(program.c_str(), argv);  // returns where that cannot be: all works without it
}

}  // namespace

int main(int argc, char** argv) {
  spin_briefly(argv);
  // Freed tensors go back to the system; by default the C library keeps ever larger ones once it has freed one.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");
  // A reader of the output that goes away (`| head`), and a file that may not grow (`ulimit -f`), are failed writes.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  const tandem::Interrupt interrupt;  // also where signals would do nothing by themselves: the first process of a container
  Output output;
  std::ostream out(&output);
  tandem::Streams streams{std::cin, out, std::cerr, terminal, terminal && !(no_colour && *no_colour), isatty(STDOUT_FILENO) != 0, terminal_columns};
  const int code = tandem::run(arguments, streams, [](const std::string& name) { return std::getenv(name.c_str()); });
  out.flush();
  return code;
}
