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

void Chain::check(int from, std::uint32_t sum, std::span<const std::byte> received) {
  if (std::memcmp(&sum, received.data(), sizeof sum) != 0) control_.end(damaged(from, rank_));
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
  const std::string reason = concat("it sums ", text_of(call), ", rank ", rank_ - 1, " sums ", text_of(below));
  control_.stop(reason);
  fail(ExitCode::communication, "rank ", rank_, ": ", reason);
}

// One sum: both streams, as far as they have come.
class Chain::Streams {
 public:
  Streams(Chain& chain, const Call& call, std::size_t element, std::byte* memory, const Fold& fold)
      : chain_(chain),
        bytes_(static_cast<std::int64_t>(call.bytes)),
        element_(static_cast<std::int64_t>(element)),
        memory_(memory),
        fold_(fold) {
    if (bottom()) at_.come_up = all_;
    if (bytes_ == 0) std::memcpy(own_.data(), &folded_, sizeof folded_);
  }

  void run() {
    for (;;) {
      const Progress before = at_;
      bottom() ? fold_own() : take_from_below();
      const bool gives_up = give_up(), takes_down = take_from_above(), gives_down = give_down();
      if (at_.sent_down == all_) return;
      if (at_ == before) chain_.wait(at_.come_up < all_, gives_down, takes_down, gives_up);
    }
  }

 private:
  using Checksum = std::array<std::byte, sizeof(std::uint32_t)>;

  bool bottom() const { return !chain_.lower_.open(); }
  bool top() const { return !chain_.upper_.open(); }
  bool summed() const { return at_.come_up == all_; }  // all partial sums have come, and were found whole
  std::byte* from(std::int64_t done) const { return memory_ + std::min(done, bytes_); }
  static void add(std::uint32_t& sum, const std::byte* bytes, std::int64_t n) { sum = crc32c(sum, {bytes, static_cast<std::size_t>(n)}); }

  // What lies between `done` and `limit` of a stream, with the checksum behind it if the limit is the end and it may go.
  Piece piece(std::byte* next, std::int64_t done, std::int64_t limit, Checksum& behind, bool whole) const {
    const std::int64_t n = std::max<std::int64_t>(0, std::min(limit, bytes_) - done), past = std::max<std::int64_t>(0, done - bytes_);
    return Piece{next, n, whole && done + n >= bytes_ ? std::span(behind).subspan(static_cast<std::size_t>(past)) : std::span<std::byte>()};
  }

  void fold_next(std::int64_t n, const std::byte* partial) {
    fold_.call(fold_.context, at_.folded, n, partial);
    add(folded_, memory_ + at_.folded, n);
    at_.folded += n;
    if (at_.folded == bytes_) std::memcpy(own_.data(), &folded_, sizeof folded_);
  }

  // Only ahead of what is sent, if there is a rank above, so that the first bytes are on their way while the next are summed.
  void fold_own() {
    const std::int64_t n = std::min(block / element_ * element_, bytes_ - at_.folded);
    if ((top() || at_.folded == at_.sent_up) && n > 0) fold_next(n, nullptr);
  }

  void take_from_below() {
    if (summed()) return;
    std::byte* const staging = chain_.staged_.data();
    const Piece next = piece(staging + staged_, at_.come_up, at_.come_up + block - staged_, sum_below_, true);
    const std::int64_t got = chain_.receive(chain_.lower_, chain_.rank_ - 1, next), of_data = std::min(got, next.count);
    add(come_up_, next.bytes, of_data);
    staged_ += of_data;
    at_.come_up += got;
    const std::int64_t whole = staged_ / element_ * element_;
    if (whole > 0) fold_next(whole, staging);
    staged_ -= whole;
    if (staged_ > 0 && whole > 0) std::memmove(staging, staging + whole, static_cast<std::size_t>(staged_));
    if (summed()) chain_.check(chain_.rank_ - 1, come_up_, sum_below_);
  }

  // Each of these says whether there was something to give or to take.
  bool give_up() {
    if (top()) return false;
    const Piece next = piece(from(at_.sent_up), at_.sent_up, at_.folded, own_, summed());
    at_.sent_up += chain_.send(chain_.upper_, chain_.rank_ + 1, next);
    return next.all() > 0;
  }

  bool take_from_above() {
    if (top()) {
      at_.come_down = summed() && at_.folded == bytes_ ? all_ : at_.folded;
      return false;
    }
    const Piece next = piece(from(at_.come_down), at_.come_down, at_.sent_up, sum_above_, at_.sent_up >= bytes_);
    const std::int64_t got = chain_.receive(chain_.upper_, chain_.rank_ + 1, next);
    add(come_down_, next.bytes, std::min(got, next.count));
    at_.come_down += got;
    if (got > 0 && at_.come_down == all_) chain_.check(chain_.rank_ + 1, come_down_, sum_above_);
    return next.all() > 0;
  }

  bool give_down() {
    if (bottom()) {
      at_.sent_down = at_.come_down;
      return false;
    }
    const Piece next = piece(from(at_.sent_down), at_.sent_down, at_.come_down, top() ? own_ : sum_above_, at_.come_down == all_);
    at_.sent_down += chain_.send(chain_.lower_, chain_.rank_ - 1, next);
    return next.all() > 0;
  }

  Chain& chain_;
  const std::int64_t bytes_, all_ = bytes_ + std::ssize(Checksum{}), element_;  // all: of a stream, with its checksum
  std::byte* const memory_;
  const Fold& fold_;
  Progress at_;
  std::int64_t staged_ = 0;                                 // bytes that are not folded yet: less than an element between two turns
  std::uint32_t come_up_ = 0, folded_ = 0, come_down_ = 0;  // checksums
  Checksum sum_below_{}, sum_above_{}, own_{};            // what follows the streams; own: of what was folded
};

void Chain::run(const Call& call, std::size_t element, std::byte* memory, const Fold& fold) {
  control_.enter_call();
  control_.send_messages((lower_.open() ? 1 : 0) + (upper_.open() ? 1 : 0));
  announce(call);
  Streams(*this, call, element, memory, fold).run();
}

}  // namespace tandem
