// Two processes, each a rank, sum by NCCL on one GPU, or on two where there are two: what becomes of them where one fails by itself
// beside a recorded sum, and where a recorded sum is given up. Skipped where there is no GPU, and where NCCL refuses two ranks on a card.
// The same with sums on the host, which tries the test itself.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "ranks/world.h"
#include "tests/cuda/host_backend.h"
#include "tests/cuda/where.h"
#include "tests/kernels/sum_over.h"
#include "tests/ranks/address.h"

namespace tandem::cuda {
namespace {

constexpr int ranks = 2, refused = 77;
constexpr double timeout = 15;
constexpr std::int64_t elements = 1000;
constexpr const char* address_variable = "TANDEM_TEST_ADDRESS";

// A rank's stream, buffer and sum, which may be recorded.
class RankSum {
 public:
  RankSum(const Backend& backend, CollectiveGroup& group, int rank, int device_index)
      : group_(group), rank_(rank), device_(backend.open(device_index, {})) {
    device_->activate();
    stream_ = device_->create_stream(1);
    memory_ = device_->allocate_summed(elements * 4);
    kernel_ = group.make(tandem::test::sum_over(ranks, elements, DType::float32), rank);
    kernel_->bind({&memory_, 1}, {&memory_, 1}, nullptr);
  }
  void record() {
    device_->begin_capture(*stream_);
    stream_->launch(*kernel_);
    graph_ = device_->end_capture(*stream_);
  }
  void drop() { graph_.reset(); }
  void run() {
    group_.begin_step(rank_);
    const std::vector<float> own(elements, static_cast<float>(rank_ + 1));
    std::vector<float> sum(elements);
    stream_->copy_in(memory_, reinterpret_cast<const std::byte*>(own.data()), elements * 4);
    graph_ ? graph_->launch(*stream_) : stream_->launch(*kernel_);
    stream_->copy_out(reinterpret_cast<std::byte*>(sum.data()), memory_, elements * 4);
    stream_->synchronize();
    group_.end_step(rank_);
    EXPECT_EQ(sum, std::vector<float>(elements, 3.0F));
  }

 private:
  CollectiveGroup& group_;
  const int rank_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<CapturedGraph> graph_;
};

void gives_up_what_it_recorded(RankSum& sum, CollectiveGroup&, World& world, int) {
  sum.run();
  sum.record();
  sum.drop();
  for (int i = 0; i < 3; ++i) sum.run();
  world.leave();
}

void fails_by_itself(RankSum& sum, CollectiveGroup& group, World&, int rank) {
  sum.run();
  sum.record();
  try {
    sum.run();  // the other rank may have been through it, and failed
    if (rank == 1) group.abort("rank 1 has no memory");  // its graph is still there, as where a step fails
    for (;;) sum.run();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::communication);
    EXPECT_NE(std::string_view(e.what()).find("rank 1 has no memory"), std::string_view::npos) << e.what();
  }
}

struct Row {
  const char* name;
  void (*of_a_rank)(RankSum&, CollectiveGroup&, World&, int rank);
};
constexpr Row rows[] = {{"gives_up_what_it_recorded", gives_up_what_it_recorded}, {"one_fails_by_itself", fails_by_itself}};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

// What a process is that the test below starts.
[[noreturn]] void be_rank(const Backend& backend, const Row& row, int rank) {
  try {
    World world({.rank = rank, .ranks = ranks, .address = std::getenv(address_variable), .timeout_seconds = timeout});
    const int device = backend.device_count() >= ranks ? rank : 0;
    const auto group =
        backend.create_group({.devices = {device}, .first_rank = rank, .ranks = ranks, .world = &world, .timeout_seconds = timeout});
    RankSum sum(backend, *group, rank, device);
    row.of_a_rank(sum, *group, world, rank);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    _exit(std::string_view(e.what()).find("Duplicate GPU") != std::string_view::npos ? refused : 1);
  }
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

class GpuRanks : public testing::TestWithParam<std::tuple<Where, Row>> {};

const Backend* backend_of(Where where, std::string& reason) {
  if (where == Where::gpu) return cuda_module(reason);
  static HostCudaBackend host(false);
  host.devices.captures = host.devices.captures_sums = true;
  return &host;
}

TEST_P(GpuRanks, EndWithoutEachOther) {
  const auto& [where, row] = GetParam();
  std::string reason;
  const Backend* const backend = backend_of(where, reason);
  if (!backend) GTEST_SKIP() << reason;
  if (!backend->unusable().empty()) GTEST_SKIP() << backend->unusable();
  if (const char* rank = std::getenv("TANDEM_TEST_RANK")) be_rank(*backend, row, std::atoi(rank));
  const test::RankAddress address;
  const std::string filter = concat("--gtest_filter=", testing::UnitTest::GetInstance()->current_test_info()->test_suite_name(), '.',
                                    testing::UnitTest::GetInstance()->current_test_info()->name());
  pid_t processes[ranks];
  for (int rank = 0; rank < ranks; ++rank) {
    processes[rank] = fork();
    ASSERT_GE(processes[rank], 0);
    if (processes[rank] > 0) continue;
    setenv("TANDEM_TEST_RANK", std::to_string(rank).c_str(), 1);
    setenv(address_variable, address.text().c_str(), 1);
    if (backend->device_count() < ranks) {  // on one card they take each other for two machines
      setenv("NCCL_HOSTID", concat("rank", rank).c_str(), 1);
      for (const auto& [name, value] :
           {std::pair{"NCCL_P2P_DISABLE", "1"}, {"NCCL_SHM_DISABLE", "1"}, {"NCCL_NET", "Socket"}, {"NCCL_SOCKET_IFNAME", "lo"}})
        setenv(name, value, 1);
    }
    execl("/proc/self/exe", "cuda_tests", filter.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(static_cast<int>(6 * timeout));
  bool refusal = false;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(processes[rank], &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (ended == 0) {
      kill(processes[rank], SIGKILL);
      waitpid(processes[rank], &status, 0);
      ADD_FAILURE() << "rank " << rank << " did not end";
      continue;
    }
    refusal |= WIFEXITED(status) && WEXITSTATUS(status) == refused;
    if (!refusal) EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << " ended with status " << status;
  }
  if (refusal) GTEST_SKIP() << "NCCL: Duplicate GPU detected";
}
const auto row_name = [](const auto& info) { return std::string(std::get<1>(info.param).name); };
INSTANTIATE_TEST_SUITE_P(Ranks, GpuRanks, testing::Combine(testing::Values(Where::gpu), testing::ValuesIn(rows)), row_name);
INSTANTIATE_TEST_SUITE_P(Host, GpuRanks, testing::Combine(testing::Values(Where::host), testing::ValuesIn(rows)), row_name);

}  // namespace
}  // namespace tandem::cuda
