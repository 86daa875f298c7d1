#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/suggest.h"
#include "cli/table.h"
#include "options/data_flags.h"
#include "options/device_flags.h"
#include "options/loss_flags.h"
#include "options/optimizer_flags.h"
#include "options/train_flags.h"

namespace tandem {
namespace {

// What most calls of `tandem train` say comes first.
constexpr const FlagRow* most_used[] = {&data_flags.data,           &train_flags.epochs, &device_flags.batch_size, &optimizer_flags.lr,
                                        &optimizer_flags.optimizer, &loss_flags.loss,    &device_flags.devices,    &record_flags.run_dir,
                                        &record_flags.resume,       &output_flags.output};
constexpr std::size_t many_options = 30;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string left_of(const FlagRow& row) {
  return concat(row.is_on_by_default() ? "--no-" : "--", row.name, row.is_switch() ? "" : " ", row.value);
}
std::string right_of(const FlagRow& row) {
  return concat(row.is_on_by_default() ? "do not " : "", row.help(),
                row.is_switch() || row.absent.empty() ? std::string() : concat(" (default ", row.absent, ")"));
}

std::string option_text(const FlagRow& row, std::size_t columns) {
  const bool narrow = columns < 80;
  const std::size_t indent = narrow ? 6 : 32;
  const std::string left = left_of(row), right = wrapped(right_of(row), columns - indent, indent);
  return narrow || left.size() > 28 ? fmt::format("  {}\n{:{}}{}\n", left, "", indent, right) : fmt::format("  {:<28}  {}\n", left, right);
}

// A command line that is too long goes on behind a backslash, what a comment says of it stands before it.
std::string example_text(const std::string& line, std::size_t columns) {
  if (line.size() <= columns) return line + '\n';
  if (const std::size_t comment = line.find("  #"); comment != std::string::npos) {
    const std::string command = line.substr(0, line.find_last_not_of(' ', comment) + 1), note = line.substr(line.find('#', comment));
    return concat("  ", wrapped(note, columns - 4, 4), '\n', example_text(command, columns));
  }
  std::string out, now = " ";
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    std::string piece = ' ' + word;
    if (word.starts_with("--")) {  // its value stays with it
      const auto at = words.tellg();
      if (std::string value; words >> value && !value.starts_with("-") && value != "\\")
        piece += ' ' + value;
      else {
        words.clear();
        words.seekg(at);
      }
    }
    if (now.size() > 4 && now.size() + piece.size() + 2 > columns) {
      out += now + " \\\n";
      now = "   ";
    }
    now += piece;
  }
  return out + now + '\n';
}

// Indented lines are one paragraph, broken anew.
std::string notes_text(std::string_view notes, std::size_t columns) {
  std::string out, paragraph;
  const auto end = [&] {
    if (!paragraph.empty()) out += concat("  ", wrapped(paragraph, columns - 2, 2), '\n');
    paragraph.clear();
  };
  for (const std::string& line : lines_of(notes)) {
    if (line.starts_with("  ")) {
      paragraph += line.substr(1);
      continue;
    }
    end();
    out += line + '\n';
  }
  end();
  return out;
}

// What examples say over several lines is one command line.
std::vector<std::string> examples_of(const Command& command) {
  std::vector<std::string> list;
  bool goes_on = false;
  for (std::string line : lines_of(command.examples)) {
    const bool more = line.ends_with(" \\");
    if (more) line.resize(line.size() - 2);
    if (goes_on)
      list.back() += ' ' + line.substr(std::min(line.find_first_not_of(' '), line.size()));
    else
      list.push_back(line);
    goes_on = more;
  }
  return list;
}

// Options under one heading of the help.
struct Heading {
  std::string title;
  std::vector<const FlagRow*> rows;
};
constexpr std::string_view own_options = "options", most_used_options = "most used";

// In the help's order: the command's most used options first (of `train`), then those under no heading, then by heading.
std::vector<Heading> headings_of(const Command& command) {
  std::vector<Heading> headings;
  const bool names_most_used = rows_of(command).size() > many_options && command.name == "train";
  if (names_most_used) headings.push_back({std::string(most_used_options), {std::begin(most_used), std::end(most_used)}});
  std::string title(own_options);
  for (const FlagGroup* group : groups_of(command)) {
    if (!group->title().empty()) title = group->title();
    for (const FlagRow* row : group->rows()) {
      if (names_most_used && std::ranges::find(most_used, row) != std::end(most_used)) continue;
      if (headings.empty() || headings.back().title != title) headings.push_back({title, {}});
      headings.back().rows.push_back(row);
    }
  }
  return headings;
}

std::string group_text(const Heading& group, std::size_t columns) {
  std::string text = concat('\n', group.title, ":\n");
  for (const FlagRow* row : group.rows) text += option_text(*row, columns);
  return text;
}

// A group's title with the names of its options.
std::string names_text(const Heading& group, std::size_t columns) {
  std::string names;
  for (const FlagRow* row : group.rows) names += concat(names.empty() ? "" : " ", row->is_on_by_default() ? "no-" : "", row->name);
  return concat("  ", group.title, "\n      ", wrapped(names, columns - 6, 6), '\n');
}

// The words of a title by which a group is asked for.
std::vector<std::string> words_of(std::string_view title) {
  std::vector<std::string> words;
  std::istringstream stream{std::string(title)};
  for (std::string word; stream >> word;) {
    if (word.ends_with(',')) word.pop_back();
    if (word.size() > 3) words.push_back(word);  // not "and", "of"
  }
  return words;
}

// The groups of which the title, or a word of it, begins with `topic`, else the option of that name. Fails (usage) where there is neither.
std::string topic_text(const Command& command, const std::vector<Heading>& groups, std::string_view topic, std::size_t columns) {
  std::string text;
  std::vector<std::string> known{"all"};
  for (const Heading& group : groups) {
    const std::vector<std::string> words = words_of(group.title);
    const auto begins = [&](std::string_view words_of_it) { return words_of_it.starts_with(topic); };
    if (begins(group.title) || std::any_of(words.begin(), words.end(), begins)) text += group_text(group, columns);
    if (group.title != own_options && group.title != most_used_options) known.insert(known.end(), words.begin(), words.end());
  }
  if (!text.empty()) return text.substr(1);
  const std::string_view name = topic.substr(std::min(topic.find_first_not_of('-'), topic.size()));
  for (const Heading& group : groups)
    for (const FlagRow* row : group.rows) {
      if (row->name == name || concat("no-", row->name) == name) return option_text(*row, columns);
      known.emplace_back(row->name);
    }
  const std::string near = nearest(topic, known);
  fail(ExitCode::usage, "--help ", topic, ": no group and no option of ", command.name,
       near.empty() ? "" : concat(", did you mean '", near, "'?"), "; tandem ", command.name, " --help lists them");
}

const char* exit_codes =
    "Exit codes: 0 ok, 2 usage, 3 model or plan, 4 data, 5 device or memory, 6 communication, 7 I/O, 8 diverged, 75 stopped but resumable, "
    "128 and a signal's number: ended by it (129, 130, 138, 140, 143, 152).";
const char* sources = "Options may also be given as environment variables (TANDEM_BATCH_SIZE for --batch-size) or in a file (--config).";

}  // namespace

std::string overview(std::size_t columns) {
  std::string text = concat(wrapped("tandem trains ONNX models on many devices by a compiled plan.", columns),
                            "\n\nusage: tandem COMMAND [options]\n\ncommands:\n");
  const auto row = [&](std::string_view name, std::string_view help) {
    text += fmt::format("  {:<11} {}\n", name, wrapped(help, columns - 14, 14));
  };
  for (const Command& c : commands()) row(c.name, c.help);
  row("help", "show this, or with a command its options");
  return concat(text, "\nto begin with:\n", example_text("  tandem train MODEL.onnx --data SPEC", columns), '\n', wrapped(sources, columns),
                '\n', wrapped(exit_codes, columns), '\n');
}

std::string help_of(const Command& command, std::size_t columns, std::string_view topic) {
  const std::vector<Heading> groups = headings_of(command);
  const bool all = topic == "all" || (topic.empty() && rows_of(command).size() <= many_options);
  if (!topic.empty() && !all) return topic_text(command, groups, topic, columns);
  std::string text = concat(wrapped(command.help, columns), "\n\n");
  for (const std::string& line : lines_of(concat("usage: tandem ", command.name, ' ', command.usage)))
    text += concat(line.starts_with(' ') ? "       " : "", wrapped(line, columns - 9, 9), '\n');
  for (const Heading& group : groups)
    if (all || group.title == own_options || group.title == most_used_options) text += group_text(group, columns);
  if (!all) {
    text += concat(
        '\n',
        wrapped(
            concat(
                "more options, by group; tandem ", command.name,
                " --help GROUP explains those of one (a word of its title is enough), --help OPTION one option, --help all every option:"),
            columns),
        '\n');
    for (const Heading& group : groups)
      if (group.title != own_options && group.title != most_used_options) text += names_text(group, columns);
  }
  text += "\nexamples:\n";
  for (const std::string& line : examples_of(command)) text += example_text(line, columns);
  return command.notes.empty() ? text : concat(text, '\n', notes_text(command.notes, columns));
}

// Source: man-pages(7).
std::string man_page(const Command* command) {
  const auto plain = [](std::string_view text) {
    std::string out;
    bool at_start = true;
    for (const char c : text) {
      if (at_start && (c == '.' || c == '\'')) out += "\\&";
      if (c == '\\')
        out += "\\e";
      else if (c == '-')
        out += "\\-";
      else
        out += c;
      at_start = c == '\n';
    }
    return out;
  };
  const std::string name = command ? concat("tandem-", command->name) : "tandem";
  std::string text =
      concat(".TH ", name, " 1 \"\" \"tandem ", TANDEM_VERSION, "\" \"tandem\"\n.SH NAME\n", plain(name), " \\- ",
             plain(command ? command->help : "train ONNX models on many devices by a compiled plan"), "\n.SH SYNOPSIS\n.nf\n",
             plain(command ? concat("tandem ", command->name, ' ', command->usage) : "tandem COMMAND [options]"), "\n.fi\n");
  if (!command) {
    text += ".SH COMMANDS\n";
    for (const Command& c : commands())
      text += concat(".TP\n.B ", plain(c.name), "\n", plain(c.help), " (see tandem\\-", plain(c.name), "(1))\n");
    return concat(text, ".SH OPTIONS\n", plain(sources), "\n.SH EXIT STATUS\n", plain(exit_codes), '\n');
  }
  text += ".SH OPTIONS\n";
  for (const FlagGroup* group : groups_of(*command)) {
    if (!group->title().empty()) text += concat(".SS ", plain(group->title()), '\n');
    for (const FlagRow* row : group->rows()) text += concat(".TP\n.B ", plain(left_of(*row)), '\n', plain(right_of(*row)), '\n');
  }
  text += ".SH EXAMPLES\n.nf\n";
  for (const std::string& line : examples_of(*command)) text += plain(line) + '\n';
  text += ".fi\n";
  if (!command->notes.empty()) text += concat(".SH NOTES\n.nf\n", plain(command->notes), ".fi\n");
  return text + ".SH SEE ALSO\ntandem(1)\n";
}

}  // namespace tandem
