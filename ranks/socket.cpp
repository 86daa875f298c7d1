// Opens, connects and accepts sockets, and turns what the system says into errors.
#include "ranks/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

constexpr std::string_view unix_prefix = "unix:", mapped_ipv4 = "::ffff:";
constexpr auto retry_interval = std::chrono::milliseconds(20);
constexpr auto one_attempt = std::chrono::seconds(5);  // of several addresses that a name stands for
constexpr int backlog = 128;

struct Endpoint {
  sockaddr_storage address{};
  socklen_t bytes = 0;
};

bool in_memory(const std::string& path) { return path.starts_with('@'); }

Endpoint unix_endpoint(const std::string& path) {
  Endpoint e;
  auto* const a = reinterpret_cast<sockaddr_un*>(&e.address);
  if (path.empty() || path.size() >= sizeof a->sun_path)
    fail(ExitCode::usage, "address 'unix:", path, "': expected a path of 1 to ", sizeof a->sun_path - 1, " bytes");
  a->sun_family = AF_UNIX;
  std::memcpy(a->sun_path, path.c_str(), path.size() + 1);
  if (in_memory(path)) a->sun_path[0] = '\0';
  e.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (in_memory(path) ? 0 : 1));
  return e;
}

std::vector<Endpoint> resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0)
    fail(ExitCode::communication, "address '", host, ':', port, "': ", gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* a = list; a; a = a->ai_next) {
    Endpoint& e = endpoints.emplace_back();
    std::memcpy(&e.address, a->ai_addr, a->ai_addrlen);
    e.bytes = a->ai_addrlen;
  }
  return endpoints;
}

Socket make_socket(const Endpoint& e) {
  Socket s(::socket(e.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (s.open() && e.address.ss_family != AF_UNIX) ::setsockopt(s.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return s;
}

bool listens(const Socket& s, const Endpoint& e) {
  const int on = 1;
  if (e.address.ss_family != AF_UNIX) ::setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(s.get(), reinterpret_cast<const sockaddr*>(&e.address), e.bytes) == 0 && ::listen(s.get(), backlog) == 0;
}

bool ready(const Socket& s, short events, Clock::time_point end) {
  pollfd p{s.get(), events, 0};
  int n = 0;
  do n = ::poll(&p, 1, milliseconds_until(end));
  while (n < 0 && errno == EINTR);
  return n > 0;
}

// A port nobody listens to yet may be given to the very socket that tries to connect to it, which then meets itself.
bool met_itself(const Socket& s, const Endpoint& peer) {
  Endpoint own;
  own.bytes = sizeof own.address;
  ::getsockname(s.get(), reinterpret_cast<sockaddr*>(&own.address), &own.bytes);
  return peer.address.ss_family != AF_UNIX && own.bytes == peer.bytes && std::memcmp(&own.address, &peer.address, own.bytes) == 0;
}

bool connects(const Socket& s, const Endpoint& e, Clock::time_point end) {
  if (::connect(s.get(), reinterpret_cast<const sockaddr*>(&e.address), e.bytes) == 0) return !met_itself(s, e);
  if (errno != EINPROGRESS || !ready(s, POLLOUT, end)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(s.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 && !met_itself(s, e);
}

// The address of one end, as numbers.
std::string name_of(const Socket& socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  char host[NI_MAXHOST] = "";
  if (ask(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0 || address.ss_family == AF_UNIX) return "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  const std::string_view text = host;  // what listens at :: sees IPv4's addresses as IPv6's
  return std::string(text.starts_with(mapped_ipv4) && text.find('.') != text.npos ? text.substr(mapped_ipv4.size()) : text);
}

Socket listen_on(const std::vector<Endpoint>& endpoints, const std::string& where) {
  int error = 0;
  for (const Endpoint& e : endpoints) {
    Socket s = make_socket(e);
    if (s.open() && listens(s, e)) return s;
    error = errno;
  }
  fail(ExitCode::communication, "cannot listen at ", where, ": ", std::strerror(error));
}

}  // namespace

Clock::time_point seconds_from_now(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e9)));
}

int milliseconds_until(Clock::time_point end) {
  constexpr std::int64_t most = 1'000'000'000;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, most));
}

Socket::~Socket() {
  if (open()) ::close(descriptor_);
}

Address parse_address(const std::string& text) {
  if (text.starts_with(unix_prefix)) return {"", text.substr(unix_prefix.size())};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    fail(ExitCode::usage, "address '", text, "': expected HOST:PORT or unix:PATH");
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, text.substr(colon + 1)};
}

std::string to_string(const Address& a) {
  const bool bare = a.host.find(':') == std::string::npos;
  return a.local() ? concat(unix_prefix, a.port) : bare ? concat(a.host, ':', a.port) : concat('[', a.host, "]:", a.port);
}

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1" || host.starts_with("::ffff:127."); }

bool means_all(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

bool means_loopback(const std::string& host) { return host.empty() || host == "localhost" || is_loopback(host); }

Socket listen_at(const Address& a) {
  if (!a.local()) return listen_on(resolve(a.host, a.port), to_string(a));
  // A file that a run left that was killed is taken; one where somebody listens is not.
  struct stat left {};
  const Endpoint e = unix_endpoint(a.port);
  if (!in_memory(a.port) && ::lstat(a.port.c_str(), &left) == 0 && S_ISSOCK(left.st_mode) && !connects(make_socket(e), e, Clock::now()) &&
      errno == ECONNREFUSED)
    ::unlink(a.port.c_str());
  return listen_on({e}, to_string(a));
}

void remove_place(const Address& a) {
  if (a.local() && !in_memory(a.port)) ::unlink(a.port.c_str());
}

std::pair<Socket, std::string> listen_beside(const Address& a, const std::string& host, int rank) {
  if (a.local()) {
    const std::string path = concat(a.port, '.', rank);
    return {listen_at({"", path}), path};
  }
  Socket s = listen_at({host, "0"});
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  ::getsockname(s.get(), reinterpret_cast<sockaddr*>(&bound), &bytes);
  const auto port = bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                                : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  return {std::move(s), std::to_string(ntohs(port))};
}

Socket accept_from(const Socket& listener) {
  Socket s(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int on = 1;
  if (s.open()) ::setsockopt(s.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // refused, and not needed, on Unix sockets
  return s;
}

bool same_user(const Socket& socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  sockaddr_storage own{};
  socklen_t own_bytes = sizeof own;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes);
  if (own.ss_family != AF_UNIX) return true;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

Socket connect_to(const Address& a, Clock::time_point end) {
  const std::vector<Endpoint> endpoints = a.local() ? std::vector{unix_endpoint(a.port)} : resolve(a.host, a.port);
  for (;;) {
    for (const Endpoint& e : endpoints) {
      Socket s = make_socket(e);
      if (s.open() && connects(s, e, std::min(end, Clock::now() + one_attempt)) && same_user(s)) return s;
    }
    if (Clock::now() >= end) return {};
    std::this_thread::sleep_for(retry_interval);
  }
}

std::string peer_of(const Socket& socket) { return name_of(socket, ::getpeername); }
std::string own_host(const Socket& socket) { return name_of(socket, ::getsockname); }

bool send_all(const Socket& socket, const void* data, std::size_t bytes, Clock::time_point end) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket.get(), from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR) && ready(socket, POLLOUT, end)) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool readable(const Socket& socket, Clock::time_point end) { return ready(socket, POLLIN, end); }

bool receive_all(const Socket& socket, void* data, std::size_t bytes, Clock::time_point end) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket.get(), to, bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR) && ready(socket, POLLIN, end)) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace tandem
