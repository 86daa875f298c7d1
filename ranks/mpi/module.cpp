// MPI behind ranks/mpi.h, compiled once with each MPI's headers: libtandem_mpi_openmpi.so, libtandem_mpi_mpich.so. A pipe cuts its bytes
// into messages of at most `piece` bytes, so that no count is large, with a few under way each way. Both libraries spin where they
// wait: nothing here calls a function that waits. One lock serves all calls (MPI_THREAD_SERIALIZED).
#include "ranks/mpi.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace tandem {
namespace {

using namespace std::chrono_literals;

constexpr int piece = 1 << 16;         // bytes of a message
constexpr std::size_t under_way = 8;   // messages of a pipe each way
constexpr auto beat = 1ms;             // what no call moves moves after so long
constexpr auto longest_pause = 500us;  // of one who waits

// One message. `count` is of a message that has come.
struct Slot {
  enum class State { idle, moving, done, broken };
  std::atomic<State> state{State::idle};
  std::atomic<int> count{0};
  std::vector<char> bytes = std::vector<char>(piece);
};

// Before MPI is entered, too.
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));  // "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\n..."
  std::string words = all.substr(0, std::min(all.find_first_of(",\n"), all.size()));
  std::replace(words.begin(), words.end(), '\t', ' ');
  return words;
}

class MpiPipe;

class Engine final : public Mpi {
 public:
  Engine() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &here_);
    MPI_Comm_free(&here);
  }
  ~Engine() override = default;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int ranks_here() const override { return here_; }
  std::string library() const override { return library_version(); }
  bool broadcast(std::span<std::byte> bytes, double timeout_seconds) override;
  std::unique_ptr<Pipe> open(int rank, int number) override;
  void progress() override;
  void leave(bool together) override;

  // Of a pipe: a slot's place among the requests, and its message's beginning.
  std::size_t add(Slot& slot);
  void remove(std::size_t place);
  void send(std::size_t place, Slot& slot, int bytes, int rank, int number);
  void receive(std::size_t place, Slot& slot, int rank, int number);

 private:
  void settle(Slot& slot, const MPI_Status& status, bool failed);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1, here_ = 1;
  std::mutex lock_;  // of all that follows, and of MPI
  std::vector<MPI_Request> requests_;
  std::vector<Slot*> slots_;  // by request; null: free
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
  std::atomic<bool> moved_{false};  // since the last beat
  std::jthread mover_;
};

class MpiPipe final : public Pipe {
 public:
  MpiPipe(Engine& engine, int rank, int number) : engine_(engine), rank_(rank), number_(number) {
    for (std::size_t i = 0; i < under_way; ++i) {
      out_places_[i] = engine_.add(out_[i]);
      in_places_[i] = engine_.add(in_[i]);
      engine_.receive(in_places_[i], in_[i], rank_, number_);
    }
  }
  ~MpiPipe() override {
    for (std::size_t i = 0; i < under_way; ++i) {
      engine_.remove(in_places_[i]);
      engine_.remove(out_places_[i]);
    }
  }

  std::int64_t write(std::span<const iovec> pieces) override {
    std::int64_t gone = 0;
    std::size_t at = 0, within = 0;  // a piece, and a byte of it
    while (at < pieces.size()) {
      Slot& slot = out_[next_out_];
      if (slot.state == Slot::State::done) slot.state = Slot::State::idle;
      if (slot.state == Slot::State::broken) return -1;
      if (slot.state != Slot::State::idle) break;
      int filled = 0;
      while (at < pieces.size() && filled < piece) {
        const std::size_t n = std::min(pieces[at].iov_len - within, static_cast<std::size_t>(piece - filled));
        std::memcpy(slot.bytes.data() + filled, static_cast<const char*>(pieces[at].iov_base) + within, n);
        filled += static_cast<int>(n);
        within += n;
        if (within == pieces[at].iov_len) ++at, within = 0;
      }
      engine_.send(out_places_[next_out_], slot, filled, rank_, number_);
      next_out_ = (next_out_ + 1) % under_way;
      gone += filled;
    }
    return gone;
  }

  std::int64_t read(std::span<const iovec> pieces) override {
    std::int64_t come = 0;
    for (const iovec& to : pieces)
      for (std::size_t filled = 0; filled < to.iov_len;) {
        Slot& slot = in_[next_in_];
        if (slot.state == Slot::State::broken) return -1;
        if (slot.state != Slot::State::done) return come;
        const std::size_t n = std::min(to.iov_len - filled, static_cast<std::size_t>(slot.count - taken_));
        std::memcpy(static_cast<char*>(to.iov_base) + filled, slot.bytes.data() + taken_, n);
        filled += n;
        taken_ += static_cast<int>(n);
        come += static_cast<std::int64_t>(n);
        if (taken_ < slot.count) continue;
        engine_.receive(in_places_[next_in_], slot, rank_, number_);
        next_in_ = (next_in_ + 1) % under_way;
        taken_ = 0;
      }
    return come;
  }

  bool ready(bool to_read, bool to_write) const override {
    return (to_read && in_[next_in_].state > Slot::State::moving) || (to_write && out_[next_out_].state != Slot::State::moving);
  }

 private:
  Engine& engine_;
  const int rank_, number_;
  std::array<Slot, under_way> out_, in_;  // in turn
  std::array<std::size_t, under_way> out_places_{}, in_places_{};
  std::size_t next_out_ = 0, next_in_ = 0;
  int taken_ = 0;  // bytes of the message that is read
};

bool Engine::broadcast(std::span<std::byte> bytes, double timeout_seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::min(timeout_seconds, 1e9));
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard hold(lock_);
    if (MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, comm_, &request) != MPI_SUCCESS) return false;
  }
  for (auto pause = 20us;; pause = std::min<std::chrono::microseconds>(2 * pause, longest_pause)) {
    int done = 0;
    {
      const std::lock_guard hold(lock_);
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    }
    if (done) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(pause);
  }
}

std::unique_ptr<Pipe> Engine::open(int rank, int number) {
  const auto move = [this](const std::stop_token& ended) {
    for (; !ended.stop_requested(); std::this_thread::sleep_for(beat))
      if (!moved_.exchange(false)) progress();
  };
  if (!mover_.joinable()) mover_ = std::jthread(move);
  return std::make_unique<MpiPipe>(*this, rank, number);
}

std::size_t Engine::add(Slot& slot) {
  const std::lock_guard hold(lock_);
  const auto place = static_cast<std::size_t>(std::find(slots_.begin(), slots_.end(), nullptr) - slots_.begin());
  if (place == slots_.size()) {
    slots_.push_back(nullptr);
    requests_.push_back(MPI_REQUEST_NULL);
    done_.resize(slots_.size());
    statuses_.resize(slots_.size());
  }
  slots_[place] = &slot;
  return place;
}

// What has not come is not wanted any more; what has not gone is let go, for the other end may be no more. The slot's memory may be
// read for as long, so it stays.
void Engine::remove(std::size_t place) {
  const std::lock_guard hold(lock_);
  MPI_Request& request = requests_[place];
  if (request != MPI_REQUEST_NULL) {
    MPI_Cancel(&request);
    int done = 0;
    for (int tries = 0; !done && tries < 100; ++tries) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (!done) {
      new std::vector<char>(std::move(slots_[place]->bytes));
      MPI_Request_free(&request);
    }
  }
  request = MPI_REQUEST_NULL;
  slots_[place] = nullptr;
}

void Engine::send(std::size_t place, Slot& slot, int bytes, int rank, int number) {
  slot.state = Slot::State::moving;
  const std::lock_guard hold(lock_);
  if (MPI_Isend(slot.bytes.data(), bytes, MPI_BYTE, rank, number, comm_, &requests_[place]) != MPI_SUCCESS)
    slot.state = Slot::State::broken;
}

void Engine::receive(std::size_t place, Slot& slot, int rank, int number) {
  slot.state = Slot::State::moving;
  const std::lock_guard hold(lock_);
  if (MPI_Irecv(slot.bytes.data(), piece, MPI_BYTE, rank, number, comm_, &requests_[place]) != MPI_SUCCESS)
    slot.state = Slot::State::broken;
}

void Engine::settle(Slot& slot, const MPI_Status& status, bool failed) {
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  slot.count = count;
  slot.state = failed ? Slot::State::broken : Slot::State::done;
}

// Who finds another at it need not wait for it.
void Engine::progress() {
  const std::unique_lock hold(lock_, std::try_to_lock);
  if (!hold || requests_.empty()) return;
  moved_ = true;
  int count = 0;
  const int result = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(), statuses_.data());
  if (count == MPI_UNDEFINED) return;
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto place = static_cast<std::size_t>(done_[at]);
    const bool failed = result == MPI_ERR_IN_STATUS && statuses_[at].MPI_ERROR != MPI_SUCCESS;
    if (slots_[place]) settle(*slots_[place], statuses_[at], failed);
  }
}

// Tells the process manager, in the words of PMI, that this process ends as it should. MPI_Finalize does so last. In MPICH 4.0 over UCX one
// rank may wait there without end for the answer of another, which waits for the first in a barrier (3 of 20 runs on three busy hosts).
bool end_by_process_manager() {
  const char* const name = std::getenv("PMI_FD");
  int length = 0;
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  MPI_Get_library_version(text.data(), &length);
  if (!name || !std::string_view(text.data()).starts_with("MPICH")) return false;
  const int fd = std::atoi(name);
  constexpr std::string_view word = "cmd=finalize\n";
  if (::write(fd, word.data(), word.size()) != std::ssize(word)) return false;
  std::string answer;
  for (char c = 0; c != '\n' && ::read(fd, &c, 1) == 1;) answer += c;
  return answer.starts_with("cmd=finalize_ack");
}

void Engine::leave(bool together) {
  mover_ = {};
  if (!together) return;
  const std::lock_guard hold(lock_);
  if (end_by_process_manager()) return;
  MPI_Comm_free(&comm_);
  MPI_Finalize();
}

}  // namespace
}  // namespace tandem

extern "C" std::string tandem_mpi_library() { return tandem::library_version(); }

extern "C" tandem::Mpi* tandem_mpi(std::string& reason) {
  static tandem::Mpi* mpi = nullptr;
  if (mpi) return mpi;
  int given = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given);
  if (given < MPI_THREAD_SERIALIZED) {
    reason = "this MPI allows calls from one thread alone (MPI_THREAD_SERIALIZED is wanted)";
    return nullptr;
  }
  mpi = new tandem::Engine;  // as long as the process
  return mpi;
}
