// Sockets between the processes of a run: TCP ("host:port"), or a Unix socket where all are on one machine ("unix:PATH"
// or "unix:@NAME").
#pragma once
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace tandem {

using Clock = std::chrono::steady_clock;
Clock::time_point seconds_from_now(double seconds);
int milliseconds_until(Clock::time_point end);  // for poll(): not negative, rounded up

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();
  bool open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

struct Address {
  std::string host;  // empty: a Unix socket
  std::string port;  // or its path; one that begins with @ is a name in the system's memory, with no file
  bool local() const { return host.empty(); }
};
Address parse_address(const std::string& text);  // fails (usage)
std::string to_string(const Address& address);

// Fails (communication) with the reason. Listens at that address and no other; what a name stands for on this machine.
Socket listen_at(const Address& address);
void remove_place(const Address& address);  // a Unix socket's file
// Where others reach a port of this machine's choosing at `host`, one of its addresses, or a Unix socket beside `address`.
// the socket and its port, or its path
std::pair<Socket, std::string> listen_beside(const Address& address, const std::string& host, int rank);
Socket accept_from(const Socket& listener);  // who waits there; not open where nobody does
// Of who connected by a Unix socket: this process's user runs it. True of others, where that cannot be known.
bool same_user(const Socket& socket);
// Tries until somebody listens; not open where the time is over.
Socket connect_to(const Address& address, Clock::time_point end);
std::string peer_of(const Socket& socket);   // the address of the other end as numbers; empty for a Unix socket
std::string own_host(const Socket& socket);  // this end's
bool is_loopback(const std::string& host);     // an address in numbers
bool means_loopback(const std::string& host);  // as written: localhost, or such an address; also of a Unix socket
bool means_all(const std::string& host);       // as written: all of a machine's addresses, 0.0.0.0 or ::

// All of the bytes, or false where the line closed or the time is over.
bool send_all(const Socket& socket, const void* data, std::size_t bytes, Clock::time_point end);
bool readable(const Socket& socket, Clock::time_point end);  // bytes have come, or the line has closed
bool receive_all(const Socket& socket, void* data, std::size_t bytes, Clock::time_point end);

}  // namespace tandem
