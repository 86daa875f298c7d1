// Times of kernels, of a backend that tells them from a list, and the file that keeps them.
#include "planner/lower/tuner.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

namespace tandem {
namespace {

class Listed final : public Backend {
 public:
  explicit Listed(std::deque<double> times, bool disturbed = false) : times_(std::move(times)), disturbed_(disturbed) {}
  std::string name() const override { return called; }
  std::string version() const override { return "1"; }
  std::string unusable() const override { return ""; }
  int device_count() const override { return 1; }
  DeviceModel model(int, int) const override { return {}; }
  std::vector<KernelRow> rows() const override { return {}; }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override {
    std::vector<KernelDescription> all(request.timed ? 4 : 1);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].kernel = concat("listed.", i);
    return all;
  }
  std::unique_ptr<Device> open(int, const KernelOptions&) const override { return nullptr; }
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec&) const override { return nullptr; }
  Timing measure(const KernelDescription&, const KernelOptions&) const override {
    during();
    if (times_.empty()) throw std::logic_error("timed too often");
    const double seconds = times_.front();
    times_.pop_front();
    return {seconds, disturbed_};
  }
  std::size_t left() const { return times_.size(); }
  std::function<void()> during = [] {};  // what happens while a kernel is timed
  std::string called = "listed";

 private:
  mutable std::deque<double> times_;
  bool disturbed_;
};

class TunerFile : public testing::Test {
 protected:
  ~TunerFile() override { std::filesystem::remove_all(folder_); }

  // What a tuner says of one kernel, asked three times.
  std::vector<double> ask(const Listed& backend, const std::string& kernel, bool again = false, bool quiet = false) const {
    Tuner tuner(backend, true, file_, again, {}, [&] { return quiet; });
    const Attributes none;
    const KernelRequest request{"Relu", &none, {}, {}, {}};
    KernelDescription d;
    d.kernel = kernel;
    std::vector<double> seconds;
    for (int i = 0; i < 3; ++i) seconds.push_back(tuner.cost(request, d, 0, {}).seconds);
    return seconds;
  }
  // Another process, of a backend of that name, is killed while it times the kernel.
  void end_a_process_with(const std::string& kernel, const std::string& backend) const {
    Listed killed({});
    killed.called = backend;
    killed.during = [] { raise(SIGKILL); };
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      ask(killed, kernel);
      _exit(0);
    }
    int status = 0;
    waitpid(process, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  std::string contents() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  static std::vector<double> all(double seconds) { return {seconds, seconds, seconds}; }

  static std::string make_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-tuner-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder: " + name);
    return name;
  }

  const std::string folder_ = make_folder();
  const std::string file_ = folder_ + "/kernels.cache";
};

TEST_F(TunerFile, KeepsTimesForTheNextTuner) {
  const Listed first({0.5}), second({});
  EXPECT_EQ(ask(first, "a"), all(0.5));
  EXPECT_EQ(ask(second, "a"), all(0.5));
  EXPECT_EQ(ask(Listed({2}), "b"), all(2));
  EXPECT_EQ(ask(second, "a"), all(0.5));
}

TEST_F(TunerFile, AgainTheShorterTimeStays) {
  ask(Listed({0.5}), "a");
  const Listed slower({0.75}), faster({0.25});
  EXPECT_EQ(ask(slower, "a", true), all(0.5));
  EXPECT_EQ(slower.left(), 0U) << "it was timed, once";
  EXPECT_EQ(ask(faster, "a", true), all(0.25));
  EXPECT_EQ(ask(Listed({}), "a"), all(0.25));
}

TEST_F(TunerFile, WhatIsNoTimeIsTimedAgain) {
  ask(Listed({0.5}), "a");
  const std::string text = contents(), head = text.substr(0, text.find('\n') + 1), key = text.substr(text.find('\t'));
  for (const std::string bad : {"x", "0", "-1", "1e", ""}) {
    std::ofstream(file_) << head << bad << key;
    EXPECT_EQ(ask(Listed({3}), "a"), all(3)) << bad;
  }
}

TEST_F(TunerFile, TimesTakenInAnotherWayAreNotRead) {
  ask(Listed({0.5}), "a");
  const std::string text = contents(), rest = text.substr(text.find('\n') + 1);
  for (const std::string first : {"tandem kernel times 2\n", "tandem kernel times\n", ""}) {
    std::ofstream(file_) << first << rest;
    EXPECT_EQ(ask(Listed({3}), "a"), all(3)) << first;
  }
}

TEST_F(TunerFile, DisturbedTimesAreKeptMarked) {
  EXPECT_EQ(ask(Listed({0.5}, true), "a"), all(0.5));
  EXPECT_NE(contents().find("\n~0.5\t"), std::string::npos) << contents();
  EXPECT_EQ(ask(Listed({}), "a"), all(0.5)) << "the next run chooses as the first one did";
  EXPECT_EQ(ask(Listed({0.375}, true), "a", true), all(0.375));
  EXPECT_NE(contents().find("\n~0.375\t"), std::string::npos) << contents();
  EXPECT_EQ(ask(Listed({0.25}), "a", true), all(0.25));
  EXPECT_NE(contents().find("\n0.25\t"), std::string::npos) << contents();
  EXPECT_EQ(ask(Listed({0.5}, true), "a", true), all(0.25)) << "held up, it says nothing against the time that is known";
  EXPECT_EQ(contents().find('~'), std::string::npos) << contents();
}

TEST_F(TunerFile, DisturbedTimesAreTakenAgainWhereItIsQuiet) {
  ask(Listed({0.5}, true), "a");
  ask(Listed({0.25}), "b");
  EXPECT_EQ(ask(Listed({}), "a"), all(0.5)) << "busy: nothing is timed";
  const Listed quiet({0.75});
  EXPECT_EQ(ask(quiet, "a", false, true), all(0.75)) << "also where it is longer: the other was no measurement";
  EXPECT_EQ(quiet.left(), 0U) << "it was timed, once";
  EXPECT_EQ(contents().find('~'), std::string::npos) << contents();
  EXPECT_EQ(ask(Listed({}), "a", false, true), all(0.75)) << "from now on it stays";
  EXPECT_EQ(ask(Listed({}), "b", false, true), all(0.25)) << "and what was not disturbed always did";
}

TEST_F(TunerFile, WhatIsDisturbedOnceMoreStaysAndEndsIt) {
  ask(Listed({0.5}, true), "a");
  ask(Listed({0.5}, true), "b");
  const std::string before = contents();
  const Listed backend({0.25}, true);
  const Attributes none;
  int asked = 0;
  {
    Tuner tuner(backend, true, file_, false, {}, [&] { return ++asked > 0; });
    for (const std::string kernel : {"a", "b", "a"}) {
      KernelDescription d;
      d.kernel = kernel;
      EXPECT_EQ(tuner.cost({"Relu", &none, {}, {}, {}}, d, 0, {}).seconds, 0.5) << kernel;
    }
    EXPECT_EQ(tuner.used(), 2U);
    EXPECT_EQ(tuner.disturbed(), 2U);
  }
  EXPECT_EQ(backend.left(), 0U);
  EXPECT_EQ(asked, 1) << "it costs time to ask";
  EXPECT_EQ(contents(), before) << "a plan made on a busy machine is that of the run before";
}

TEST_F(TunerFile, NobodyAsksWhereNothingWasDisturbed) {
  ask(Listed({0.5}), "a");
  const Listed backend({});
  const Attributes none;
  Tuner tuner(backend, true, file_, false, {}, []() -> bool { throw std::logic_error("asked"); });
  KernelDescription d;
  d.kernel = "a";
  EXPECT_EQ(tuner.cost({"Relu", &none, {}, {}, {}}, d, 0, {}).seconds, 0.5);
  EXPECT_EQ(tuner.disturbed(), 0U);
}

TEST_F(TunerFile, OfAnOlderFileTheTimesCountAsDisturbed) {
  ask(Listed({0.5}), "a");
  const std::string text = contents(), rest = text.substr(text.find('\n') + 1);
  std::ofstream(file_) << "tandem kernel times 5\n" << rest;
  EXPECT_EQ(ask(Listed({}), "a"), all(0.5));
  EXPECT_EQ(ask(Listed({0.25}), "a", false, true), all(0.25));
  EXPECT_EQ(ask(Listed({}), "a", false, true), all(0.25));
}

TEST_F(TunerFile, KeepsEveryDigit) {
  const double odd = 0.1234567890123456789 / 3;
  ask(Listed({odd}), "a");
  EXPECT_EQ(ask(Listed({}), "a"), all(odd));
}

// Two runs at once: neither loses the other's times.
TEST_F(TunerFile, TimesThatOtherRunsAddMeanwhileStay) {
  const Attributes none;
  {
    const Listed backend({0.5});
    Tuner slow(backend, true, file_, false, {}, [] { return false; });
    ask(Listed({0.25}), "b");
    KernelDescription d;
    d.kernel = "a";
    slow.cost({"Relu", &none, {}, {}, {}}, d, 0, {});
  }
  EXPECT_EQ(ask(Listed({}), "a"), all(0.5));
  EXPECT_EQ(ask(Listed({}), "b"), all(0.25));
}

// Nor where all of them write at the same moment.
TEST_F(TunerFile, ProcessesThatEndAtOnceKeepEachOthersTimes) {
  constexpr int runs = 8;
  std::barrier together(runs);
  std::vector<std::jthread> threads;
  for (int r = 0; r < runs; ++r)
    threads.emplace_back([&, r] {
      for (int round = 0; round < 5; ++round) {
        together.arrive_and_wait();
        ask(Listed({0.5 + r}), concat(r, '/', round));
      }
    });
  threads.clear();
  for (int r = 0; r < runs; ++r)
    for (int round = 0; round < 5; ++round) EXPECT_EQ(ask(Listed({}), concat(r, '/', round)), all(0.5 + r)) << r << '/' << round;
}

TEST_F(TunerFile, TimesOfDevicesThatTakeTurnsAreAsManyTimesLonger) {
  const Attributes none;
  for (const double sharing : {32, 1}) {
    const Listed backend(sharing > 1 ? std::deque<double>{0.5} : std::deque<double>{});
    Tuner tuner(backend, true, file_);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(tuner.cost({"Relu", &none, {}, {}, {}}, {}, 0, {.sharing = sharing}).seconds, 0.5 * sharing);
  }
}

// A device that is lost stays so for the process: the next one must not go the same way.
TEST_F(TunerFile, AKernelThatLosesTheDeviceIsLeftOutFromThenOn) {
  Listed lost({});
  lost.during = [] { fail(ExitCode::device, "an illegal memory access was encountered"); };
  try {
    ask(lost, "a|b");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string_view(e.what()).find("an illegal memory access"), std::string_view::npos) << e.what();
  }
  EXPECT_EQ(ask(Listed({}), "a|b"), all(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(ask(Listed({2}), "a|b", true), all(2)) << "asked for once more";
  EXPECT_EQ(ask(Listed({}), "a|b"), all(2));
}

TEST_F(TunerFile, AKernelThatEndsItsProcessIsLeftOutByTheNext) {
  end_a_process_with("deadly", "listed");
  EXPECT_EQ(ask(Listed({1}), "another"), all(1));
  Listed none({});
  Tuner tuner(none, true, file_, false, {}, [] { return false; });
  const Attributes attributes;
  KernelDescription d;
  d.kernel = "deadly";
  EXPECT_EQ(tuner.cost({"Relu", &attributes, {}, {}, {}}, d, 0, {}).seconds, std::numeric_limits<double>::infinity());
  EXPECT_EQ(tuner.ended_processes(), std::vector<std::string>{"deadly"});
}

// What is killed on a CPU goes on to the same bits, and so with the same kernels.
TEST_F(TunerFile, OnCpusNoKernelIsLeftOutForAKill) {
  end_a_process_with("a kernel", "cpu");
  Listed cpu({1});
  cpu.called = "cpu";
  EXPECT_EQ(ask(cpu, "a kernel"), all(1));
}

TEST_F(TunerFile, OnCpusNoKernelIsLeftOutForAFailure) {
  Listed full({});
  full.called = "cpu";
  full.during = [] { fail(ExitCode::device, "no memory"); };
  EXPECT_THROW(ask(full, "a kernel"), Error);
  Listed cpu({1});
  cpu.called = "cpu";
  EXPECT_EQ(ask(cpu, "a kernel"), all(1));
}

TEST_F(TunerFile, WhatALivingProcessTimesIsNotLeftOut) {
  Listed slow({3}), other({2});
  slow.during = [&] { EXPECT_EQ(ask(other, "slow"), all(2)); };
  EXPECT_EQ(ask(slow, "slow")[0], 3);
}

TEST(Tuner, EstimatesByTheBytesThatMove) {
  const Listed backend({});
  Tuner tuner(backend, false, "");
  const Attributes none;
  KernelDescription d;
  d.inputs = d.outputs = {{DType::float32, Shape{1000}, Layout::row_major(1)}};
  d.passes = 1.5;
  EXPECT_DOUBLE_EQ(tuner.cost({"Relu", &none, {}, {}, {}}, d, 0, {.bandwidth = 1e6}).seconds, 0.012);
}

TEST(Tuner, LeavesOutKernelsByName) {
  const Listed backend({});
  Tuner tuner(backend, true, "", false, {}, machine_is_quiet, {"listed.0", "", "listed.2"});
  const Attributes none;
  std::vector<std::string> names;
  for (const KernelDescription& d : tuner.describe({"Relu", &none, {}, {}, {}})) names.push_back(d.kernel);
  EXPECT_EQ(names, (std::vector<std::string>{"listed.1", "listed.3"}));
}

TEST(Tuner, SaysWhichNamesLeftAKernelOut) {
  const Listed backend({});
  Tuner tuner(backend, true, "", false, {}, machine_is_quiet, {"listed", "listed.2", "", "lisetd"});
  const Attributes none;
  EXPECT_FALSE(tuner.left_out("listed")) << "nothing is described yet";
  EXPECT_TRUE(tuner.describe({"Relu", &none, {}, {}, {}}).empty());
  EXPECT_TRUE(tuner.left_out("listed"));
  EXPECT_TRUE(tuner.left_out("listed.2")) << "another name left it out already";
  EXPECT_FALSE(tuner.left_out(""));
  EXPECT_FALSE(tuner.left_out("lisetd"));
}

TEST(Tuner, AsksForSecondChoicesOnlyToTimeThem) {
  const Listed backend({});
  const Attributes none;
  for (const bool measures : {false, true})
    EXPECT_EQ(Tuner(backend, measures, "").describe({"Relu", &none, {}, {}, {}, {}}).size(), measures ? 4U : 1U);
}

TEST_F(TunerFile, WithoutMeasuringOrAFileNothingIsWritten) {
  const Attributes none;
  const Listed backend({1});
  Tuner(backend, false, file_).cost({"Relu", &none, {}, {}, {}}, {}, 0, {});
  Tuner(backend, true, "").cost({"Relu", &none, {}, {}, {}}, {}, 0, {});
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace tandem
