// Streams partial sums up and whole sums down at once, as the sockets take and give them.
#include "ranks/chain.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/crc32c.h"
#include "base/error.h"

namespace tandem {

Chain::Chain(int rank, Neighbours neighbours, double timeout_seconds, Control& control)
    : rank_(rank), timeout_(timeout_seconds), lower_(std::move(neighbours.lower)), upper_(std::move(neighbours.upper)), control_(control) {}

// What can be read now; 0 where nothing is there.
std::int64_t Chain::receive(const Socket& from, int rank, const Piece& piece) {
  if (piece.all() == 0) return 0;
  iovec parts[] = {{piece.bytes, static_cast<std::size_t>(piece.count)}, {piece.behind.data(), piece.behind.size()}};
  const ssize_t got = ::readv(from.get(), parts, std::size(parts));
  if (got > 0) return got;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  control_.lost(rank);
}

std::int64_t Chain::send(const Socket& to, int rank, const Piece& piece) {
  if (piece.all() == 0) return 0;
  iovec parts[] = {{piece.bytes, static_cast<std::size_t>(piece.count)}, {piece.behind.data(), piece.behind.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  const ssize_t sent = ::sendmsg(to.get(), &message, MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  if (errno == EAGAIN || errno == EINTR) return 0;
  control_.lost(rank);
}

void Chain::check(int from, std::uint32_t sum, std::span<const std::byte> told) {
  if (std::memcmp(&sum, told.data(), sizeof sum) != 0) control_.end(damaged(from, rank_));
}

// Until one of the lines that are asked for is ready, or the ranks have stopped.
void Chain::wait(bool from_lower, bool to_lower, bool from_upper, bool to_upper) {
  const auto events = [](bool in, bool out) { return static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0)); };
  const auto line = [&](const Socket& s, short wanted) { return pollfd{s.open() && wanted ? s.get() : -1, wanted, 0}; };
  pollfd lines[] = {line(lower_, events(from_lower, to_lower)), line(upper_, events(from_upper, to_upper)),
                    {control_.stop_descriptor(), POLLIN, 0}};
  const auto end = seconds_from_now(timeout_);
  control_.wait_for(from_lower || to_lower, from_upper || to_upper);
  for (;;) {
    const int n = ::poll(lines, std::size(lines), milliseconds_until(end));
    if (n < 0 && errno == EINTR) continue;
    if (lines[2].revents) control_.raise();
    if (n == 0) control_.stalled();
    control_.wait_for(false, false);
    return;
  }
}

// The rank above compares what this rank calls with what it calls itself.
void Chain::announce(const Call& call) {
  Call own = call, below;
  std::uint32_t own_sum = crc32c(0, std::as_bytes(std::span(&own, 1))), sum_below = 0;
  constexpr std::int64_t size = sizeof call, all = size + sizeof own_sum;
  const auto rest = [&](Call& c, std::uint32_t& sum, std::int64_t done) {
    const std::int64_t of_call = std::min(done, size);
    return Piece{reinterpret_cast<std::byte*>(&c) + of_call, size - of_call,
                 std::as_writable_bytes(std::span(&sum, 1)).subspan(static_cast<std::size_t>(done - of_call))};
  };
  std::int64_t sent = upper_.open() ? 0 : all, got = lower_.open() ? 0 : all;
  for (;;) {
    const std::int64_t before = sent + got;
    sent += send(upper_, rank_ + 1, rest(own, own_sum, sent));
    got += receive(lower_, rank_ - 1, rest(below, sum_below, got));
    if (sent == all && got == all) break;
    if (sent + got == before) wait(got < all, false, false, sent < all);
  }
  if (!lower_.open()) return;
  check(rank_ - 1, crc32c(0, std::as_bytes(std::span(&below, 1))), std::as_bytes(std::span(&sum_below, 1)));
  if (below == call) return;
  const auto text = [](const Call& c) { return concat(c.bytes, " bytes of kind ", c.kind, " on channel ", c.channel); };
  const std::string reason = concat("it sums ", text(call), ", rank ", rank_ - 1, " sums ", text(below));
  control_.stop(reason);
  fail(ExitCode::communication, "rank ", rank_, ": ", reason);
}

void Chain::run(const Call& call, std::size_t element, std::byte* memory, const Fold& fold) {
  control_.enter_call();
  announce(call);
  const auto bytes = static_cast<std::int64_t>(call.bytes), size = static_cast<std::int64_t>(element);
  using Sum = std::array<std::byte, sizeof(std::uint32_t)>;
  constexpr std::int64_t tail = sizeof(Sum);
  const std::int64_t all = bytes + tail;  // of a stream
  const bool bottom = !lower_.open(), top = !upper_.open();
  std::uint32_t come_up = 0, folded = 0, come_down = 0;  // checksums
  Sum told_below{}, told_above{}, own{};                 // what follows the streams; own: of what was folded
  // `next`: what lies between `done` and `limit` of a stream, with the checksum behind it if the limit is the end and it may go.
  const auto piece = [&](std::byte* next, std::int64_t done, std::int64_t limit, Sum& behind, bool whole) {
    const std::int64_t n = std::max<std::int64_t>(0, std::min(limit, bytes) - done), past = std::max<std::int64_t>(0, done - bytes);
    return Piece{next, n, whole && done + n >= bytes ? std::span(behind).subspan(static_cast<std::size_t>(past)) : std::span<std::byte>()};
  };
  const auto from = [&](std::int64_t done) { return memory + std::min(done, bytes); };
  const auto add = [](std::uint32_t& sum, const std::byte* bytes_of, std::int64_t n) { sum = crc32c(sum, {bytes_of, static_cast<std::size_t>(n)}); };
  const auto fold_next = [&](Progress& at, std::int64_t n, const std::byte* partial) {
    fold.call(fold.context, at.folded, n, partial);
    add(folded, memory + at.folded, n);
    at.folded += n;
    if (at.folded == bytes) std::memcpy(own.data(), &folded, sizeof folded);
  };
  if (bytes == 0) std::memcpy(own.data(), &folded, sizeof folded);

  Progress at;
  if (bottom) at.come_up = all;
  std::int64_t staged = 0;  // bytes of staged_ that are not folded yet: less than an element between two turns
  for (;;) {
    const Progress before = at;
    if (bottom) {
      // Only ahead of what is sent, so that the first bytes are on their way while the next are summed.
      const std::int64_t n = std::min(block / size * size, bytes - at.folded);
      if (at.folded == at.sent_up && n > 0) fold_next(at, n, nullptr);
    } else if (at.come_up < all) {
      const Piece next = piece(staged_.data() + staged, at.come_up, at.come_up + block - staged, told_below, true);
      const std::int64_t got = receive(lower_, rank_ - 1, next), of_data = std::min(got, next.count);
      add(come_up, next.bytes, of_data);
      staged += of_data;
      at.come_up += got;
      const std::int64_t whole = staged / size * size;
      if (whole > 0) fold_next(at, whole, staged_.data());
      staged -= whole;
      if (staged > 0 && whole > 0) std::memmove(staged_.data(), staged_.data() + whole, static_cast<std::size_t>(staged));
      if (at.come_up == all) check(rank_ - 1, come_up, told_below);
    }
    const bool summed = at.come_up == all;  // and found whole
    const Piece up = top ? Piece{} : piece(from(at.sent_up), at.sent_up, at.folded, own, summed);
    Piece from_above{};
    if (top) {
      at.come_down = summed && at.folded == bytes ? all : at.folded;
    } else {
      at.sent_up += send(upper_, rank_ + 1, up);
      from_above = piece(from(at.come_down), at.come_down, at.sent_up, told_above, at.sent_up >= bytes);
      const std::int64_t got = receive(upper_, rank_ + 1, from_above);
      add(come_down, from_above.bytes, std::min(got, from_above.count));
      at.come_down += got;
      if (got > 0 && at.come_down == all) check(rank_ + 1, come_down, told_above);
    }
    Piece down{};
    if (bottom) {
      at.sent_down = at.come_down;
    } else {
      down = piece(from(at.sent_down), at.sent_down, at.come_down, top ? own : told_above, at.come_down == all);
      at.sent_down += send(lower_, rank_ - 1, down);
    }
    if (at.sent_down == all) return;
    if (at == before) wait(at.come_up < all, down.all() > 0, from_above.all() > 0, up.all() > 0);
  }
}

}  // namespace tandem
