#include "trainer/records/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/file.h"

namespace tandem {
namespace {

constexpr std::string_view header = "step,epoch,loss,accuracy,learning_rate,seconds,samples\n";

std::string number(double value) { return std::isfinite(value) ? text_of(value) : ""; }

// The lines of steps up to `step` of what is there, which a killed run may have left cut.
std::string kept_lines(const std::filesystem::path& path, std::int64_t step) {
  std::string kept(header);
  std::error_code error;
  if (step == 0 || !std::filesystem::is_regular_file(path, error)) return kept;
  const std::string text = read_file(path);
  for (std::size_t at = header.size(), end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    std::int64_t of = 0;
    const auto [after, bad] = std::from_chars(text.data() + at, text.data() + end, of);
    if (bad != std::errc() || *after != ',' || of > step) break;
    kept.append(text, at, end + 1 - at);
  }
  return kept;
}

}  // namespace

GrowingFile::GrowingFile(const std::filesystem::path& path)
    : name_(path.string()),
      file_(uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666); })) {
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) fail(ExitCode::io, name_, ": cannot be opened: ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ExitCode::io, name_, ": is no regular file");
  end_ = status.st_size;
}

void GrowingFile::append(std::string_view bytes) {
  write_exactly(file_.get(), bytes.data(), bytes.size(), end_, name_);
  end_ += static_cast<std::int64_t>(bytes.size());
}

bool is_recorded(std::int64_t step) {
  std::int64_t stride = 1;
  for (std::int64_t most = 10'000; step > most && stride < 1'000'000'000'000; most *= 10) stride *= 10;
  return step % stride == 0;
}

template <class Work>
void StepLog::attempt(Work&& work) {
  if (folder_.empty()) return;
  try {
    work();
  } catch (const Error& e) {
    if (e.code() != ExitCode::io) throw;
    folder_.clear();  // once is enough
    if (warn_) warn_(concat(e.what(), "; the run goes on without it"));
  }
}

void StepLog::begin(std::int64_t step) {
  attempt([&] {
    const std::filesystem::path path = folder_ / "steps.csv";
    write_atomically(path, kept_lines(path, step));
    file_ = GrowingFile(path);
  });
}

void StepLog::step(const StepReport& r) {
  if (folder_.empty() || !file_.open() || !is_recorded(r.step)) return;
  waiting_ += concat(r.step, ',', r.epoch, ',', number(r.loss), ',', number(r.accuracy), ',', number(r.learning_rate), ',',
                     number(r.seconds), ',', r.samples, '\n');
  if (std::chrono::steady_clock::now() - flushed_ > std::chrono::seconds(1)) flush();
}

void StepLog::flush() {
  flushed_ = std::chrono::steady_clock::now();
  attempt([&] {
    if (file_.open()) file_.append(waiting_);
    waiting_.clear();
  });
}

}  // namespace tandem
