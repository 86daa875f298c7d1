// Watches the lines of control, and tells the first failure to all.
#include "ranks/control.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <set>
#include <sstream>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/printable.h"

namespace tandem {
namespace {

constexpr double answer_seconds = 2;  // of a watcher, which does nothing else
constexpr int poll_milliseconds = 1000;
constexpr std::size_t most_text = 1 << 16;

// What goes over a line before its text, with checksums of the text and of what stands here before.
struct Header {
  std::uint32_t kind = 0, bytes = 0, text_sum = 0, checksum = 0;
};
std::uint32_t sum_of(const std::string& text) { return crc32c(0, std::as_bytes(std::span(text))); }
std::uint32_t sum_of(const Header& h) { return crc32c(0, std::as_bytes(std::span(&h, 1)).first(offsetof(Header, checksum))); }

void signal(int descriptor) {
  const std::uint64_t one = 1;
  if (::write(descriptor, &one, sizeof one) < 0) return;  // it is readable already
}

}  // namespace

std::string damaged(int from, int to) {
  return concat("what rank ", from, " sent to rank ", to, " was damaged on the way: its checksum differs");
}

Control::Control(int rank, std::vector<Line> lines, double timeout_seconds)
    : rank_(rank),
      timeout_(timeout_seconds),
      lines_(std::move(lines)),
      closed_(lines_.size(), false),
      stopped_signal_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      poke_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (stopped_signal_ < 0 || poke_ < 0) fail(ExitCode::communication, "no event descriptors are left");
  watcher_ = std::thread([this] { watch(); });
}

Control::~Control() {
  ending_ = true;
  signal(poke_);
  watcher_.join();
  ::close(stopped_signal_);
  ::close(poke_);
}

void Control::send(const Line& line, Kind kind, const std::string& text) {
  const std::lock_guard lock(send_mutex_);
  const auto end = seconds_from_now(answer_seconds);
  const std::string sent = text.substr(0, most_text);
  Header header{static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(sent.size()), sum_of(sent)};
  header.checksum = sum_of(header);
  // a line that broke is seen by the watcher
  if (send_all(line.socket, &header, sizeof header, end)) send_all(line.socket, sent.data(), sent.size(), end);
}

// Once for all: the first reason is the cause. `reported_by`: a line that need not hear it, or -1.
void Control::conclude(const std::string& reason, int reported_by, bool own) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) return;
    reason_ = reason;
    first_knows_ = rank_ > 0 && !first_lost_;
  }
  {
    const std::lock_guard lock(call_mutex_);
    if (word_ && !own) word_(reason);
  }
  for (const Line& line : lines_)
    if (line.rank != reported_by) send(line, Kind::stop, reason);
  signal(stopped_signal_);
  changed_.notify_all();
  const std::lock_guard lock(call_mutex_);
  if (call_) std::exchange(call_, {})(reason);
}

void Control::stop(const std::string& reason) {
  conclude(concat("rank ", rank_, ": ", reason), -1, true);
}

void Control::on_stop(std::function<void(const std::string&)> call) {
  const std::lock_guard calling(call_mutex_);
  call_ = std::move(call);
  const std::lock_guard lock(mutex_);
  if (call_ && !reason_.empty()) std::exchange(call_, {})(reason_);
}

void Control::on_word(std::function<void(const std::string&)> call) {
  const std::lock_guard calling(call_mutex_);
  word_ = std::move(call);
}

void Control::raise() {
  const std::lock_guard lock(mutex_);
  fail(ExitCode::communication, reason_);
}

bool Control::stopped() {
  const std::lock_guard lock(mutex_);
  return !reason_.empty();
}

void Control::check() {
  if (stopped()) raise();
}

bool Control::first_knows() {
  const std::lock_guard lock(mutex_);
  return first_knows_;
}

void Control::end(const std::string& reason) {
  conclude(reason, -1);
  raise();
}

void Control::missing(int rank) {
  stalled();  // rank 0 names all that do not answer
  end(concat("waited ", timeout_, " s for rank ", rank));
}

void Control::lost(int rank) {
  {
    // A rank ends its lines also where it ends because of another: rank 0 knows which.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(answer_seconds), [&] { return !reason_.empty(); });
  }
  end(concat("rank ", rank, " has ended"));
}

void Control::stalled() {
  {
    std::unique_lock lock(mutex_);
    const std::uint64_t before = patience_;
    asked_here_ = rank_ == 0;
    lock.unlock();
    if (rank_ == 0)
      signal(poke_);
    else
      send(lines_[0], Kind::stalled);
    lock.lock();
    changed_.wait_for(lock, std::chrono::duration<double>(2 * answer_seconds), [&] { return !reason_.empty() || patience_ != before; });
    if (reason_.empty() && patience_ != before) return;
  }
  first_lost_ = true;
  end(concat("waited ", timeout_, " s and rank 0 does not answer"));
}

// "12 4096", "12 4096 busy", "12 4096 below above", "12 4096 0>2@1 0>3@1": device 0 waits for device 2 of rank 1, and for device 3.
std::string Control::Standing::text() const {
  std::string all = concat(calls, ' ', moved, busy ? " busy" : "", below ? " below" : "", above ? " above" : "");
  for (const Wait& w : waits) all += concat(' ', w.own, '>', w.other, '@', w.rank);
  return all;
}

Control::Standing Control::Standing::of(const std::string& text) {
  Standing s{.known = true};
  std::istringstream words(text);
  words >> s.calls >> s.moved;
  for (std::string word; words >> word;) {
    Wait w;
    if (std::sscanf(word.c_str(), "%d>%d@%d", &w.own, &w.other, &w.rank) == 3) s.waits.push_back(w);
    s.busy = s.busy || word == "busy";
    s.below = s.below || word == "below";
    s.above = s.above || word == "above";
  }
  return s;
}

bool Control::Standing::has_waiting(int device) const {
  return std::any_of(waits.begin(), waits.end(), [&](const Wait& w) { return w.own == device; });
}

Control::Waiting& Control::add_waiting(int own, int other, int rank) {
  const std::lock_guard lock(mutex_);
  return waiting_.emplace_back(own, other, rank);
}

Control::Standing Control::own_standing() {
  const int waits = waits_.load(std::memory_order_relaxed);
  Standing s{true,
             busy_.load(std::memory_order_relaxed) > 0,
             calls_.load(std::memory_order_relaxed),
             moved_.load(std::memory_order_relaxed),
             (waits & 1) != 0,
             (waits & 2) != 0,
             {}};
  const std::lock_guard lock(mutex_);
  for (const Waiting& w : waiting_)
    if (w.now.load(std::memory_order_relaxed)) s.waits.push_back({w.own, w.other, w.rank});
  return s;
}

void Control::watch() {
  std::vector<pollfd> sockets;
  for (const Line& line : lines_) sockets.push_back({line.socket.get(), POLLIN, 0});
  sockets.push_back({poke_, POLLIN, 0});
  while (!ending_) {
    if (::poll(sockets.data(), sockets.size(), inquiring_ ? milliseconds_until(inquiry_end_) : poll_milliseconds) < 0) continue;
    if (ending_) return;
    std::uint64_t pokes = 0;
    if (::read(poke_, &pokes, sizeof pokes) < 0) pokes = 0;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (closed_[i] || sockets[i].revents == 0) continue;
      receive(lines_[i]);
      if (closed_[i]) sockets[i].fd = -1;
    }
    bool asked = false;
    {
      const std::lock_guard lock(mutex_);
      asked = std::exchange(asked_here_, false);
    }
    if (asked) inquire();
    const bool all_known = std::all_of(standings_.begin(), standings_.end(), [](const Standing& s) { return s.known; });
    if (inquiring_ && (all_known || Clock::now() >= inquiry_end_)) judge();
  }
}

void Control::receive(const Line& line) {
  Header header;
  std::string text;
  const auto end = seconds_from_now(answer_seconds);
  if (!receive_all(line.socket, &header, sizeof header, end)) return ended(line);
  const auto index = static_cast<std::size_t>(&line - lines_.data());
  bool whole = sum_of(header) == header.checksum && header.bytes <= most_text;
  if (whole) {
    text.resize(header.bytes);
    if (!receive_all(line.socket, text.data(), text.size(), end)) return ended(line);
    whole = sum_of(text) == header.text_sum;
  }
  if (!whole) {
    closed_[index] = true;  // where its next message begins is not known
    return conclude(damaged(line.rank, rank_), -1);
  }
  switch (static_cast<Kind>(header.kind)) {
    case Kind::stop: return conclude(printable(text, Lines::kept), line.rank);
    case Kind::stalled: return inquire();
    case Kind::where: return send(line, Kind::here, own_standing().text());
    case Kind::here:
      if (inquiring_) standings_[static_cast<std::size_t>(line.rank)] = Standing::of(text);
      return;
    case Kind::wait_on: {
      const std::lock_guard lock(mutex_);
      ++patience_;
      changed_.notify_all();
      return;
    }
  }
}

void Control::ended(const Line& line) {
  closed_[static_cast<std::size_t>(&line - lines_.data())] = true;
  if (line.rank == 0) first_lost_ = true;
  if (!leaving_) conclude(concat("rank ", line.rank, " has ended"), line.rank);
}

void Control::inquire() {
  if (inquiring_ || rank_ != 0) return;
  inquiring_ = true;
  inquiry_end_ = seconds_from_now(answer_seconds);
  standings_.assign(lines_.size() + 1, {});
  standings_[0] = own_standing();
  for (const Line& line : lines_) send(line, Kind::where);
}

// Ranks that wait for each other.
std::string Control::dead_lines() const {
  std::string pairs;
  std::set<std::pair<std::size_t, std::size_t>> said;
  const auto add = [&](std::size_t a, std::size_t b) {
    if (said.emplace(a, b).second) pairs += concat(pairs.empty() ? "" : ", of ", "rank ", a, " and rank ", b);
  };
  for (std::size_t r = 0; r + 1 < standings_.size(); ++r)
    if (standings_[r].above && standings_[r + 1].below) add(r, r + 1);
  for (std::size_t r = 0; r < standings_.size(); ++r)
    for (const Wait& w : standings_[r].waits) {
      const auto there = static_cast<std::size_t>(w.rank);
      const auto back = [&](const Wait& v) { return v.own == w.other && v.other == w.own; };
      if (r < there && there < standings_.size() && std::any_of(standings_[there].waits.begin(), standings_[there].waits.end(), back))
        add(r, there);
    }
  return pairs.empty() ? "their lines carry" : concat("the line of ", pairs, " carries");
}

// Behind is who does not answer; has made fewer calls than another, and waits for no third; or has a device that another's waits
// for, and that waits for none itself. Who is busy may be waited for.
std::string Control::at_fault(std::uint64_t most_calls) const {
  std::set<std::size_t> behind;
  for (std::size_t i = 0; i < standings_.size(); ++i) {
    const Standing& s = standings_[i];
    if (!s.known || (s.calls < most_calls && !s.busy && s.waits.empty())) behind.insert(i);
    for (const Wait& w : s.waits) {
      const auto there = static_cast<std::size_t>(w.rank);
      if (there >= standings_.size()) continue;
      const Standing& other = standings_[there];
      if (!other.busy && !other.below && !other.above && !other.has_waiting(w.other)) behind.insert(there);
    }
  }
  std::string who;
  for (const std::size_t i : behind) who += concat(who.empty() ? "rank " : ", rank ", i);
  return who;
}

void Control::judge() {
  inquiring_ = false;
  std::uint64_t most = 0, progress = 0;
  bool busy = false;
  for (const Standing& s : standings_) {
    most = std::max(most, s.calls);
    progress += s.calls + s.moved;
    busy = busy || s.busy;
  }
  if (const std::string behind = at_fault(most); !behind.empty()) return conclude(concat("waited ", timeout_, " s for ", behind), -1);
  // None behind: the last came while this was asked; but where twice nothing has moved, nothing gets through between them.
  if (!busy && std::exchange(last_progress_, progress) == progress)
    return conclude(concat("waited ", timeout_, " s: all ranks are there, but ", dead_lines(), " nothing"), -1);
  for (const Line& line : lines_) send(line, Kind::wait_on);
  const std::lock_guard lock(mutex_);
  ++patience_;
  changed_.notify_all();
}

}  // namespace tandem
