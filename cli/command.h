// What a subcommand is and what it is given.
#pragma once
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/backends.h"
#include "cli/common_flags.h"
#include "cli/options.h"

namespace tandem {

struct Streams {
  std::istream& in;
  std::ostream& out;          // data
  std::ostream& err;          // messages
  bool err_terminal = false;  // a progress bar may be drawn
  bool colour = false;        // on err
  bool out_terminal = false;
  std::function<int()> columns = nullptr;  // of err's terminal, as it is now; 0: not known
};

struct Invocation {
  const Arguments& arguments;
  Streams& streams;
  const Environment& environment;
  bool json() const { return arguments[common_flags.json]; }
  bool quiet() const { return arguments[common_flags.quiet]; }
  // Names, paths and other processes' words may be in it: no control character reaches a terminal.
  void say(std::string_view message) const;         // on err, unless --quiet
  void note(std::string_view message) const;        // --quiet or not
  void warn(std::string_view message) const;        // the same, as a warning
  void print(const Json& object) const;             // on out, one line
  void write(std::string_view text) const;          // on out
  void write_bytes(std::string_view bytes) const;   // on out, as they are
};

struct Command {
  std::string_view name;
  std::string_view help;  // one line
  std::vector<Positional> positionals;
  std::string_view usage;  // after the command's name
  std::string_view examples;
  std::string_view notes = "";  // that follow them
  std::vector<const FlagGroup*> options;  // the common ones are added
  int (*run)(const Invocation&);
  bool uses_trained = false;  // of a run's --config it takes as its model what that run wrote
};

// All that there are, in the order of the help.
std::vector<Command> commands();
// A command's options with those that all have.
std::vector<const FlagGroup*> groups_of(const Command& command);
std::vector<const FlagRow*> rows_of(const Command& command);

Command train_command();
Command plan_command();
Command pack_command();
Command unpack_command();
Command evaluate_command();
Command predict_command();
Command summary_command();
Command cut_command();
Command operators_command();
Command devices_command();
Command version_command();
Command runs_command();
Command completion_command();
Command man_command();

// The whole program: `arguments` without the program's name. Returns the exit code.
int run(std::span<const std::string> arguments, Streams& streams, const Environment& environment);

}  // namespace tandem
