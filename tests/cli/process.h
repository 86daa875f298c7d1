// The program as a process of its own.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/cli/run_tandem.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {

class Process {
 public:
  // Its output goes to files in `folder` by this name. `environment` is added to this process's own.
  Process(const TemporaryFolder& folder, const std::string& name, const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {}, const std::string& program = TANDEM_PROGRAM);
  // A line of the shell, in which TANDEM, MODELS and TMP stand for the program and the folders.
  static Process shell(const TemporaryFolder& folder, const std::string& name, std::string line);
  ~Process();  // killed if it still runs
  Process(Process&& other) noexcept;
  Process(const Process&) = delete;

  void signal(int number) const;
  int id() const { return id_; }
  // Waits until its output, or its messages, hold a text; fails after five minutes.
  void wait_for_output(const std::string& text) const { wait_for(out_, text); }
  void wait_for_message(const std::string& text) const { wait_for(err_, text); }
  Outcome wait();  // code: 128 and the signal's number where one ended it
  // What it took, once waited for: processor time, and its largest resident set.
  double seconds() const { return seconds_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }

 private:
  static void wait_for(const std::string& file, const std::string& text);
  std::string out_, err_;
  int id_ = -1;
  double seconds_ = 0;
  std::int64_t peak_bytes_ = 0;
};

void wait_for_file(const std::filesystem::path& path);  // as long

}  // namespace tandem
