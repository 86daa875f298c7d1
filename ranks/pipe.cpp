#include "ranks/pipe.h"

#include <sys/socket.h>

#include <cerrno>

namespace tandem {
namespace {

msghdr message_of(std::span<const iovec> pieces) {
  msghdr m{};
  m.msg_iov = const_cast<iovec*>(pieces.data());
  m.msg_iovlen = pieces.size();
  return m;
}

bool is_for_later() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

std::int64_t SocketPipe::write(std::span<const iovec> pieces) {
  const msghdr message = message_of(pieces);
  const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  return n < 0 && is_for_later() ? 0 : n;
}

std::int64_t SocketPipe::read(std::span<const iovec> pieces) {
  msghdr message = message_of(pieces);
  const ssize_t n = ::recvmsg(socket_.get(), &message, 0);
  if (n < 0 && is_for_later()) return 0;
  return n > 0 ? n : -1;
}

}  // namespace tandem
