#include "cli/program.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <streambuf>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/prepare_process.h"

namespace tandem {
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

}  // namespace

int run_program(int argc, char** argv) {
  prepare_process(argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");
  // A reader of the output that goes away (`| head`), and a file that may not grow (`ulimit -f`), are failed writes.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  const Interrupt interrupt;  // also where signals would do nothing by themselves: the first process of a container
  Output output;
  std::ostream out(&output);
  Streams streams{std::cin, out, std::cerr, terminal, terminal && !(no_colour && *no_colour), isatty(STDOUT_FILENO) != 0, terminal_columns};
  const int code = run(arguments, streams, [](const std::string& name) { return std::getenv(name.c_str()); });
  out.flush();
  return code;
}

}  // namespace tandem
