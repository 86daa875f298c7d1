#include "kernels/cuda/rendezvous/bootstrap.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "graph/error.h"

namespace tandem::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t greeting = 0x7461646dU;
constexpr int poll_milliseconds = 100;
constexpr std::size_t most_text = 4096;

std::string ranks_of(const Member& m) { return m.ranks == 1 ? concat("rank ", m.first_rank) : concat("ranks ", m.first_rank, " to ", m.first_rank + m.ranks - 1); }

int milliseconds_until(Clock::time_point end) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count()));
}

// All of the bytes, or false where the line closes or the time is over.
bool send_all(int socket, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}
bool receive_all(int socket, void* data, std::size_t bytes, Clock::time_point end) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd ready{socket, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds_until(end)) <= 0) return false;
    const ssize_t got = ::recv(socket, to, bytes, 0);
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}
bool send_text(int socket, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(std::min(text.size(), most_text));
  return send_all(socket, &size, sizeof size) && send_all(socket, text.data(), size);
}
bool receive_text(int socket, std::string& text, Clock::time_point end) {
  std::uint32_t size = 0;
  if (!receive_all(socket, &size, sizeof size, end) || size > most_text) return false;
  text.resize(size);
  return receive_all(socket, text.data(), size, end);
}

struct Hello {
  std::uint32_t magic;
  Member member;
};

struct Addresses {
  addrinfo* list = nullptr;
  Addresses(const std::string& address, bool listen) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string::npos) fail(ExitCode::usage, "address '", address, "': expected host:port");
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = listen ? AI_PASSIVE : 0;
    const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
    if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0)
      fail(ExitCode::communication, "address '", address, "': ", gai_strerror(error));
  }
  ~Addresses() {
    if (list) freeaddrinfo(list);
  }
};

}  // namespace

Bootstrap::Bootstrap(const Options& options, SharedSecret& secret) : options_(options) {
  try {
    if (options_.self.first_rank == 0)
      gather(secret);
    else
      join(secret);
  } catch (...) {
    close_all();
    throw;
  }
}

Bootstrap::~Bootstrap() {
  ending_ = true;
  if (watcher_.joinable()) watcher_.join();
  close_all();
}

void Bootstrap::close_all() {
  for (const Line& line : lines_)
    if (line.socket >= 0) ::close(line.socket);
  lines_.clear();
}

void Bootstrap::gather(SharedSecret& secret) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
  const Addresses addresses(options_.address, true);
  struct Listener {
    int socket = -1;
    ~Listener() {
      if (socket >= 0) ::close(socket);
    }
  } listener;
  for (const addrinfo* a = addresses.list; a && listener.socket < 0; a = a->ai_next) {
    const int s = ::socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    const int on = 1;
    if (s >= 0) ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s >= 0 && ::bind(s, a->ai_addr, a->ai_addrlen) == 0 && ::listen(s, 128) == 0)
      listener.socket = s;
    else if (s >= 0)
      ::close(s);
  }
  if (listener.socket < 0) fail(ExitCode::communication, "rank 0 cannot listen at ", options_.address, ": ", std::strerror(errno));

  std::vector<bool> here(static_cast<std::size_t>(options_.ranks), false);
  int present = 0;
  std::string refusal;
  const auto enter = [&](const Member& m) {
    for (int r = m.first_rank; r < m.first_rank + m.ranks && refusal.empty(); ++r) {
      if (r < 0 || r >= options_.ranks)
        refusal = concat("rank ", r, " came, expected ranks 0 to ", options_.ranks - 1);
      else if (here[static_cast<std::size_t>(r)])
        refusal = concat("rank ", r, " came twice");
      else
        here[static_cast<std::size_t>(r)] = true, ++present;
    }
  };
  enter(options_.self);
  while (present < options_.ranks && refusal.empty()) {
    pollfd ready{listener.socket, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds_until(end)) <= 0) {
      std::string missing;
      for (std::size_t r = 0; r < here.size(); ++r)
        if (!here[r]) missing += concat(missing.empty() ? "" : ", ", r);
      refusal = concat("after ", options_.timeout_seconds, " s still waiting for rank ", missing);
      break;
    }
    const int s = ::accept(listener.socket, nullptr, nullptr);
    if (s < 0) continue;
    Hello hello{};
    std::string hash;
    if (!receive_all(s, &hello, sizeof hello, end) || hello.magic != greeting || !receive_text(s, hash, end)) {
      ::close(s);  // not one of ours
      continue;
    }
    lines_.push_back({s, hello.member});
    if (hash != options_.plan_hash)
      refusal = concat(ranks_of(hello.member), " has plan ", hash, ", rank 0 has ", options_.plan_hash);
    else
      enter(hello.member);
  }
  for (const Line& line : lines_) {
    send_text(line.socket, refusal);
    if (refusal.empty()) send_all(line.socket, secret.data(), secret.size());
  }
  if (!refusal.empty()) fail(ExitCode::communication, "the group could not be made: ", refusal);
}

void Bootstrap::join(SharedSecret& secret) {
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
  const Addresses addresses(options_.address, false);
  int s = -1;
  while (s < 0) {
    for (const addrinfo* a = addresses.list; a && s < 0; a = a->ai_next) {
      s = ::socket(a->ai_family, a->ai_socktype, a->ai_protocol);
      if (s >= 0 && ::connect(s, a->ai_addr, a->ai_addrlen) != 0) {
        ::close(s);
        s = -1;
      }
    }
    if (s >= 0) break;
    if (Clock::now() >= end) fail(ExitCode::communication, ranks_of(options_.self), ": rank 0 does not answer at ", options_.address, " after ", options_.timeout_seconds, " s");
    std::this_thread::sleep_for(std::chrono::milliseconds(poll_milliseconds));
  }
  lines_.push_back({s, {0, 1}});
  const Hello hello{greeting, options_.self};
  std::string refusal;
  // Rank 0 answers when its own time is over: give it a little longer.
  const Clock::time_point answer_end = end + std::chrono::seconds(5);
  if (!send_all(s, &hello, sizeof hello) || !send_text(s, options_.plan_hash) || !receive_text(s, refusal, answer_end))
    fail(ExitCode::communication, ranks_of(options_.self), ": rank 0 at ", options_.address, " ended before the group was made");
  if (!refusal.empty()) fail(ExitCode::communication, "the group could not be made: ", refusal);
  if (!receive_all(s, secret.data(), secret.size(), answer_end)) fail(ExitCode::communication, ranks_of(options_.self), ": rank 0 ended before the group was made");
}

void Bootstrap::watch(std::function<void(const std::string&)> stopped) {
  watcher_ = std::thread([this, stopped = std::move(stopped)] { watch_lines(stopped); });
}

void Bootstrap::watch_lines(const std::function<void(const std::string&)>& stopped) {
  std::vector<pollfd> sockets;
  for (const Line& line : lines_) sockets.push_back({line.socket, POLLIN, 0});
  while (!ending_ && !sockets.empty()) {
    if (::poll(sockets.data(), sockets.size(), poll_milliseconds) <= 0) continue;
    for (std::size_t i = 0; i < sockets.size(); ++i) {
      if (sockets[i].revents == 0) continue;
      std::string reason;
      if (!receive_text(sockets[i].fd, reason, Clock::now() + std::chrono::seconds(1))) reason = concat(ranks_of(lines_[i].member), " has ended");
      if (ending_) return;
      for (std::size_t k = 0; k < lines_.size(); ++k)
        if (k != i) send_text(lines_[k].socket, reason);  // rank 0 passes it on
      stopped(reason);
      return;
    }
  }
}

void Bootstrap::stop(const std::string& reason) {
  for (const Line& line : lines_) send_text(line.socket, reason);
}

}  // namespace tandem::cuda
