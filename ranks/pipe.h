// Bytes both ways between two devices of different ranks: by a socket, or by MPI's messages.
#pragma once
#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "ranks/socket.h"

namespace tandem {

class Pipe {
 public:
  virtual ~Pipe() = default;
  // What can go at once, and what has come: the number of bytes; 0: none now; -1: the line broke.
  virtual std::int64_t write(std::span<const iovec> pieces) = 0;
  virtual std::int64_t read(std::span<const iovec> pieces) = 0;
  // For poll(); -1: there is none, and who waits asks ready() again and again.
  virtual int descriptor() const { return -1; }
  virtual bool ready(bool /*to_read*/, bool /*to_write*/) const { return true; }
};

class SocketPipe final : public Pipe {
 public:
  explicit SocketPipe(Socket socket) : socket_(std::move(socket)) {}
  std::int64_t write(std::span<const iovec> pieces) override;
  std::int64_t read(std::span<const iovec> pieces) override;
  int descriptor() const override { return socket_.get(); }

 private:
  const Socket socket_;
};

}  // namespace tandem
