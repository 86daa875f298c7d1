// LossOptions::name as its terms.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "planner/loss/losses.h"

namespace tandem {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at; (at = text.find(separator)) != std::string_view::npos; text = text.substr(at + 1))
    parts.push_back(text.substr(0, at));
  parts.push_back(text);
  return parts;
}

double number(std::string_view text, std::string_view of) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    fail(ExitCode::usage, "loss '", of, "': '", text, "' is no number");
  return value;
}

std::string plain(std::string_view word) {
  std::string text;
  for (const unsigned char c : word)
    if (std::isalnum(c)) text += static_cast<char>(std::tolower(c));
  return text;
}

// Losses of other programs that there are none of here, and what to do.
struct Missing {
  std::string_view word, answer;
};
constexpr Missing missing[] = {
    {"gaussiannllloss", "it takes two outputs at once: compute it in the model and train with the loss output"},
    {"marginrankingloss", "it takes two outputs at once: compute it in the model and train with the loss output"},
    {"hingeembeddingloss", "hinge is for scores, triplet for distances"},
    {"multilabelmarginloss", "binary-cross-entropy and hinge take several classes of a sample"},
};

const LossRow& row_of(std::string_view name) {
  const std::string word = plain(name);
  std::vector<std::string> names;
  for (const LossRow& row : loss_rows()) {
    const auto others = split(row.others, ' ');
    if (name == row.name || word == plain(row.name) || (!word.empty() && std::find(others.begin(), others.end(), word) != others.end()))
      return row;
    names.emplace_back(row.name);
  }
  for (const Missing& m : missing)
    if (m.word == word) fail(ExitCode::usage, "there is no loss '", name, "': ", m.answer);
  fail(ExitCode::usage, "loss '", name, "' is unknown", suggestion(name, names));
}

LossTerm term_of(std::string_view text) {
  LossTerm term;
  std::string_view rest = text;
  // OUTPUT= stands before the loss's name, PARAMETER= behind its colon.
  if (const std::size_t equals = rest.find('='); equals != std::string_view::npos) {
    std::size_t from = equals;  // names of values may hold colons: PyTorch's "x:0"
    const std::string_view before = rest.substr(0, equals);
    const std::size_t colon = before.find(':');
    bool parameter = false;
    if (colon != std::string_view::npos)
      for (const LossRow& row : loss_rows())
        for (const LossParameter& p : row.parameters) parameter = parameter || before.substr(colon + 1) == p.name;
    if (!parameter) {
      term.output = rest.substr(0, from);
      rest = rest.substr(equals + 1);
      if (term.output.empty()) fail(ExitCode::usage, "loss '", text, "': expected OUTPUT=LOSS");
    }
  }
  if (const std::size_t star = rest.find('*'); star != std::string_view::npos) {
    term.weight = number(rest.substr(star + 1), text);
    rest = rest.substr(0, star);
  }
  if (rest.ends_with(".onnx")) {
    term.loss = file_loss;
    term.file = rest;
    return term;
  }
  const std::vector<std::string_view> parts = split(rest, ':');
  const LossRow& row = row_of(parts[0]);
  term.loss = row.name;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    const std::string_view name = parts[i].substr(0, equals);
    std::vector<std::string> names;
    for (const LossParameter& p : row.parameters) names.emplace_back(p.name);
    if (names.empty()) fail(ExitCode::usage, "loss '", text, "': ", row.name, " takes no '", name, "'");
    if (std::find(names.begin(), names.end(), name) == names.end() || equals == std::string_view::npos)
      fail(ExitCode::usage, "loss '", text, "': ", row.name, " takes no '", parts[i], "'", suggestion(name, names), ", expected ", row.name,
           ":", names[0], "=NUMBER");
    term.parameters[std::string(name)] = number(parts[i].substr(equals + 1), text);
  }
  for (const char* positive : {"beta", "delta", "pos-weight"})
    if (const auto p = term.parameters.find(positive); p != term.parameters.end() && !(p->second > 0))
      fail(ExitCode::usage, "loss '", text, "': ", positive, " is ", p->second, ", expected a positive number");
  return term;
}

}  // namespace

std::vector<LossTerm> parse_loss(std::string_view text) {
  std::vector<LossTerm> terms;
  std::set<std::string> outputs;
  for (const std::string_view part : split(text, ',')) {
    terms.push_back(term_of(part));
    const LossTerm& term = terms.back();
    if (!outputs.insert(term.output).second && !term.output.empty())
      fail(ExitCode::usage, "loss '", text, "': two losses of '", term.output, "', expected one of each output");
  }
  if (terms.size() > 1)
    for (const LossTerm& term : terms)
      if (term.output.empty())
        fail(ExitCode::usage, "loss '", text, "': with several losses, name the output of each, for example out1=mse*0.3,out2=", term.loss);
  return terms;
}

}  // namespace tandem
