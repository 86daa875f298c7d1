// The program before a terminal: a pseudo-terminal of so many columns.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "base/printable.h"
#include "tests/cli/run_tandem.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

class Terminal {
 public:
  explicit Terminal(int columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    resize(columns);
  }
  ~Terminal() { ::close(master_); }
  Terminal(const Terminal&) = delete;

  void resize(int columns) const {
    const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
  }

  // All that the program writes to it; `watch` sees what came so far. `code`: its exit code.
  std::string run(const std::vector<std::string>& arguments, int& code, const std::function<void(const std::string&)>& watch = {}) const {
    ::setenv("OMP_WAIT_POLICY", "passive", 0);  // threads that spin are slow beside other tests
    std::vector<char*> words{const_cast<char*>(TANDEM_PROGRAM)};
    for (const std::string& a : arguments) words.push_back(const_cast<char*>(a.c_str()));
    words.push_back(nullptr);
    char name[128];
    if (::ptsname_r(master_, name, sizeof name) != 0) throw std::runtime_error("no terminal");
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, name, O_RDWR | O_NOCTTY, 0);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    pid_t id = 0;
    if (posix_spawn(&id, TANDEM_PROGRAM, &files, nullptr, words.data(), environ) != 0) throw std::runtime_error("cannot be started");
    posix_spawn_file_actions_destroy(&files);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(master_, buffer, sizeof buffer)) > 0;) {  // an error once the program has closed it
      text.append(buffer, static_cast<std::size_t>(n));
      if (watch) watch(text);
    }
    int status = 0;
    ::waitpid(id, &status, 0);
    code = WEXITSTATUS(status);
    return text;
  }

 private:
  int master_;
};

// What was drawn over one line: from one return of the cursor to the next. Whole lines end in a newline.
std::vector<std::string> bars(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t at = text.find('\r'); at != std::string::npos;) {
    const std::size_t next = text.find('\r', at + 1), end = next == std::string::npos ? text.size() : next;
    const std::string line = text.substr(at + 1, end - at - 1);
    if (line.starts_with('[')) list.push_back(line);
    at = next;
  }
  return list;
}

const char* const training =
    "train MODELS/lenet.onnx --data synthetic:digits,train=3000,test=1000 --batch-size 32 --init he-normal --no-autotune --output TMP/out.onnx";

class TerminalColumns : public testing::TestWithParam<int> {};
TEST_P(TerminalColumns, HoldTheBar) {
  const TemporaryFolder folder;
  int code = 0;
  const std::vector<std::string> drawn = bars(Terminal(GetParam()).run(words(training, folder.text()), code));
  EXPECT_EQ(code, 0);
  ASSERT_GT(drawn.size(), 2u);
  bool validation = false;
  for (const std::string& bar : drawn) {
    EXPECT_LT(bar.size(), static_cast<std::size_t>(GetParam())) << bar;
    validation = validation || bar.find("validation") != std::string::npos;
  }
  EXPECT_TRUE(validation);
}
INSTANTIATE_TEST_SUITE_P(Rows, TerminalColumns, testing::Values(20, 60, 80, 200));

TEST(TerminalThatIsResized, IsAskedAnew) {
  const TemporaryFolder folder;
  int code = 0;
  const Terminal terminal(120);
  std::size_t before = 0;
  const std::string text = terminal.run(words(training, folder.text()), code, [&](const std::string& so_far) {
    if (before == 0 && bars(so_far).size() > 1) {
      terminal.resize(40);
      before = so_far.size();
    }
  });
  ASSERT_GT(before, 0u);
  const std::vector<std::string> wide = bars(text.substr(0, before)), narrow = bars(text.substr(before));
  EXPECT_GT(wide.front().size(), 60u);
  ASSERT_GT(narrow.size(), 2u);
  for (std::size_t i = 1; i < narrow.size(); ++i) EXPECT_LT(narrow[i].size(), 40u) << narrow[i];  // one may be under way
}

TEST(BinaryPlans, AreNotWrittenToATerminal) {
  for (const char* format : {"plan", "onnx"}) {
    int code = 0;
    const std::string text = Terminal(80).run(words(concat("plan MODELS/mlp.onnx --format ", format)), code);
    EXPECT_EQ(code, 2);
    EXPECT_NE(text.find("is binary and not written to a terminal: give --output FILE or redirect"), std::string::npos) << text;
    EXPECT_LT(text.size(), 300u);
  }
}

// A name in a file, or a path, does not command the terminal.
TEST(TerminalText, ShowsControlCharactersAsBytes) {
  const std::string hostile = "\x1b]0;mine\a\x1b[2Ja.onnx";
  int code = 0;
  const std::string text = Terminal(200).run({"summary", hostile}, code);
  EXPECT_EQ(code, 7);
  EXPECT_NE(text.find("\\x1b]0;mine\\x07\\x1b[2Ja.onnx"), std::string::npos) << printable(text);
  EXPECT_EQ(text.find("\x1b]"), std::string::npos) << printable(text);
  EXPECT_EQ(text.find("\x1b[2J"), std::string::npos) << printable(text);

  std::istringstream in;
  std::ostringstream out, err;
  for (const bool terminal : {false, true}) {
    Streams streams{in, out, err, false, false, terminal};
    const Arguments none = Arguments::parse({}, {}, {}, [](const std::string&) { return nullptr; }, {});
    Invocation{none, streams, {}}.write(hostile + "\n");
    EXPECT_EQ(out.str(), "\\x1b]0;mine\\x07\\x1b[2Ja.onnx\n") << "a pipe may end at a terminal too";
    out.str("");
  }
}

}  // namespace
}  // namespace tandem
