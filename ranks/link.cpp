// Sends and receives streams as the pipe takes and gives them.
#include "ranks/link.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/crc32c.h"
#include "ranks/mpi.h"

namespace tandem {
namespace {

constexpr std::int64_t block = 1 << 18;  // bytes whose checksum is taken before they are sent

// The pieces of a stream from `done` on: of the header, of the bytes, of the checksum.
struct Pieces {
  std::array<iovec, 3> list{};
  std::size_t count = 0;
  void add(const void* begin, std::int64_t bytes) {
    if (bytes > 0) list[count++] = {const_cast<void*>(begin), static_cast<std::size_t>(bytes)};
  }
  std::span<const iovec> all() const { return {list.data(), count}; }
};

template <class T>
auto* bytes_of(T& value, std::int64_t at) {
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const std::byte*, std::byte*>>(&value) + at;
}

std::uint32_t sum_of(const Call& call) {
  return crc32c(0, std::as_bytes(std::span(&call, 1)));
}

}  // namespace

void Link::send(const Call& call, std::span<const std::byte> bytes) {
  control_.send_messages(1);
  out_ = {.header = {.call = call, .sum = sum_of(call)}, .bytes = std::ssize(bytes)};
  from_ = bytes.data();
  summed_ = 0;
}

bool Link::is_of_one_machine() const {
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  return ::getsockname(pipe_->descriptor(), reinterpret_cast<sockaddr*>(&own), &bytes) == 0 && own.ss_family == AF_UNIX;
}

void Link::receive(const Call& call) {
  in_ = {.bytes = static_cast<std::int64_t>(call.bytes)};
  expected_ = call;
}

bool Link::push() {
  wants_out_ = false;
  if (sent()) return false;
  const std::int64_t gone = std::max<std::int64_t>(0, out_.done - out_.data()),
                     next = std::min(out_.bytes, std::max(summed_, gone + block));
  out_.sum = crc32c(out_.sum, {from_ + summed_, static_cast<std::size_t>(next - summed_)});
  summed_ = next;
  Pieces pieces;
  pieces.add(bytes_of(out_.header, out_.done), out_.data() - out_.done);
  pieces.add(from_ + gone, summed_ - std::min(gone, summed_));
  const std::int64_t done = std::max<std::int64_t>(0, out_.done - out_.end());
  if (summed_ == out_.bytes) pieces.add(bytes_of(out_.sum, done), static_cast<std::int64_t>(sizeof out_.sum) - done);
  const std::int64_t n = pipe_->write(pieces.all());
  if (n < 0) control_.lost(rank_);
  out_.done += n;
  wants_out_ = !sent();
  return n > 0;
}

void Link::check_header() {
  if (sum_of(in_.header.call) != in_.header.sum) control_.end(damaged(rank_, control_.rank()));
  if (in_.header.call == expected_) return;
  const std::string reason = concat("it exchanges ", text_of(expected_), ", rank ", rank_, " exchanges ", text_of(in_.header.call));
  control_.stop(reason);
  control_.raise();
}

std::int64_t Link::pull(std::byte* to, std::int64_t room) {
  wants_in_ = false;
  if (received()) return 0;
  const std::int64_t come = std::max<std::int64_t>(0, in_.done - in_.data()), rest = std::max<std::int64_t>(0, in_.bytes - come),
                     take = std::min(room, rest);
  Pieces pieces;
  pieces.add(bytes_of(in_.header, in_.done), in_.data() - in_.done);
  pieces.add(to, take);
  const std::int64_t done = std::max<std::int64_t>(0, in_.done - in_.end());
  if (take == rest) pieces.add(bytes_of(in_.claimed, done), static_cast<std::int64_t>(sizeof in_.claimed) - done);
  if (pieces.count == 0) return 0;
  const std::int64_t n = pipe_->read(pieces.all());
  if (n < 0) control_.lost(rank_);
  const std::int64_t before = in_.done;
  in_.done += n;
  if (before < in_.data() && in_.done >= in_.data()) check_header();
  const std::int64_t data = std::clamp<std::int64_t>(in_.done - in_.data(), 0, in_.bytes) - come;
  in_.sum = crc32c(in_.sum, {to, static_cast<std::size_t>(data)});
  control_.moved(n);
  if (received() && in_.sum != in_.claimed) control_.end(damaged(rank_, control_.rank()));
  wants_in_ = !received();
  return data;
}

void Links::wait() {
  if (mpi_ ? wait_for_messages() : wait_for_sockets()) return;
  control_->stalled();
}

bool Links::wait_for_sockets() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const Link& l = *links_[i];
    const auto events = static_cast<short>((l.wants_in_ ? POLLIN : 0) | (l.wants_out_ ? POLLOUT : 0));
    polled_[i] = {events ? l.pipe_->descriptor() : -1, events, 0};
  }
  polled_.back() = {control_->stop_descriptor(), POLLIN, 0};
  const auto end = seconds_from_now(timeout_);
  int n = 0;
  do n = ::poll(polled_.data(), polled_.size(), milliseconds_until(end));
  while (n < 0 && errno == EINTR);
  if (polled_.back().revents) control_->raise();
  return n > 0;
}

// MPI has nothing to sleep at: between two looks lies a pause that grows.
bool Links::wait_for_messages() {
  using namespace std::chrono_literals;
  constexpr auto first = 10us, longest = 500us;
  const auto ready = [](const Link* l) { return (l->wants_in_ || l->wants_out_) && l->pipe_->ready(l->wants_in_, l->wants_out_); };
  const auto end = seconds_from_now(timeout_);
  for (auto pause = 0us;; pause = std::min(longest, std::max(first, 2 * pause))) {
    mpi_->progress();
    if (std::any_of(links_.begin(), links_.end(), ready)) return true;
    control_->check();
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
  }
}

void Links::set_waiting(bool now) {
  for (Link* l : links_) l->waiting_.now.store(now, std::memory_order_relaxed);
}

}  // namespace tandem
