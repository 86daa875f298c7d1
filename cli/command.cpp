#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>

#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/ranks.h"
#include "graph/printable.h"
#include "trainer/spec.h"

namespace tandem {
namespace {

std::vector<Command> commands() {
  return {train_command(),   plan_command(),      evaluate_command(), predict_command(),
          summary_command(), runs_command(),      operators_command(), devices_command()};
}

constexpr OptionRow common[] = {
    {"config", "FILE", "", "read options from a JSON file, such as a run's config.json"},
    {"json", "", "off", "write machine-readable results to stdout"},
    {"quiet", "", "off", "write no messages, only results and errors"},
    {"help", "", "off", "show this help"},
};

std::vector<OptionRow> rows_of(const Command& command) {
  std::vector<OptionRow> rows = command.options;
  rows.insert(rows.end(), std::begin(common), std::end(common));
  return rows;
}

ConfigRules config_rules(const Command& command) {
  ConfigRules rules{.command = command.name, .uses_trained = command.uses_trained};
  for (const Command& other : commands()) {
    for (const std::string_view positional : other.positionals) rules.elsewhere.emplace_back(positional);
    for (const OptionRow& row : rows_of(other)) rules.elsewhere.emplace_back(row.name);
  }
  return rules;
}

std::string overview() {
  std::string text = "tandem trains ONNX models on many devices by a compiled plan.\n\nusage: tandem COMMAND [options]\n\ncommands:\n";
  for (const Command& c : commands()) text += fmt::format("  {:<11} {}\n", c.name, c.help);
  return text +
         "  version     print the version\n  help        show this, or with a command its options\n\n"
         "Options may also be given as environment variables (TANDEM_BATCH_SIZE for --batch-size) or in a file (--config).\n"
         "Exit codes: 0 ok, 2 usage, 3 model or plan, 4 data, 5 device or memory, 6 communication, 7 I/O, 8 diverged,\n"
         "75 stopped but resumable, 128 and a signal's number: ended by it (129, 130, 138, 143).\n";
}

std::string help_of(const Command& command) {
  std::string text = fmt::format("{}\n\nusage: tandem {} {}\n\noptions:\n", command.help, command.name, command.usage);
  for (const OptionRow& row : rows_of(command)) {
    const bool on = row.value.empty() && row.absent == "on";
    std::string left = concat(on ? "--no-" : "--", row.name);
    if (!row.value.empty()) left += concat(' ', row.value);
    std::string right = concat(on ? "do not " : "", row.help);
    if (!row.value.empty() && !row.absent.empty()) right += concat(" (default ", row.absent, ")");
    text += left.size() > 28 ? fmt::format("  {}\n{:32}{}\n", left, "", right) : fmt::format("  {:<28}  {}\n", left, right);
  }
  text += "\nexamples:\n" + std::string(command.examples);
  return command.notes.empty() ? text : concat(text, '\n', command.notes);
}

int dispatch(std::span<const std::string> arguments, Streams& streams, const Environment& environment) {
  const std::string name = arguments.empty() ? "help" : arguments[0];
  if (name == "version" || name == "--version") {
    streams.out << "tandem " << TANDEM_VERSION << '\n';
    return 0;
  }
  const bool asks_help = name == "help" || name == "--help" || name == "-h";
  if (asks_help && arguments.size() < 2) {
    (arguments.empty() ? streams.err : streams.out) << overview();
    return arguments.empty() ? static_cast<int>(ExitCode::usage) : 0;
  }
  const std::string wanted = asks_help ? arguments[1] : name;
  std::vector<std::string> names{"help", "version"};
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
    if (command.name != wanted) continue;
    const auto given = arguments.subspan(1);
    const bool help = asks_help || std::any_of(given.begin(), given.end(), [](const std::string& a) { return a == "--help" || a == "-h"; });
    if (help) {
      streams.out << help_of(command);
      return 0;
    }
    const Arguments parsed = Arguments::parse(given, command.positionals, rows_of(command), environment, config_rules(command));
    return command.run({parsed, streams, environment});
  }
  fail(ExitCode::usage, "unknown command '", wanted, "'", suggestion(wanted, names));
}

// The further lines of our messages are indented: what begins a line otherwise came with a name.
std::string shown(std::string_view text) {
  const std::string in_our_words = in_flags(text);
  std::string_view message = in_our_words;
  std::string out;
  for (bool more = true; more;) {
    const std::size_t end = message.find("\n  ");
    out += printable(message.substr(0, end));
    more = end != std::string_view::npos;
    if (more) {
      out += '\n';
      message.remove_prefix(end + 1);
    }
  }
  return out;
}

}  // namespace

void Invocation::say(std::string_view message) const {
  if (!quiet()) note(message);
}
void Invocation::note(std::string_view message) const {
  streams.err << shown(message) << '\n' << std::flush;
}
void Invocation::print(const Json& object) const {
  streams.out << in_flags(object.dump()) << '\n' << std::flush;
}
void Invocation::write(std::string_view text) const {
  write_bytes(printable(in_flags(text), Lines::kept));
}
void Invocation::write_bytes(std::string_view bytes) const {
  streams.out << bytes << std::flush;
}

int run(std::span<const std::string> arguments, Streams& streams, const Environment& environment) {
  const auto report = [&](std::string_view message, int code) {
    streams.err << (streams.colour ? "\033[31merror:\033[0m " : "error: ") << shown(message) << '\n' << std::flush;
    return code;
  };
  try {
    const int code = dispatch(arguments, streams, environment);
    streams.out.flush();
    if (code == 0 && !streams.out) return report("the output could not be written", static_cast<int>(ExitCode::io));
    return code;
  } catch (const StoppedBySignal& e) {
    return 128 + e.signal;  // it was answered when it came
  } catch (const ToldByFirst& e) {
    return static_cast<int>(e.code);
  } catch (const Error& e) {
    return report(e.what(), static_cast<int>(e.code()));
  } catch (const std::bad_alloc&) {
    return report("out of memory", static_cast<int>(ExitCode::device));
  } catch (const std::filesystem::filesystem_error& e) {
    return report(concat(e.path1().string(), ": ", e.code().message()), static_cast<int>(ExitCode::io));
  } catch (const std::exception& e) {
    return report(concat("internal: ", e.what()), 1);
  }
}

}  // namespace tandem
