// text:FILE: windows of T tokens, as many as the model's input takes, and of each token the one that follows it as its label (or
// the one behind the window, for a model that predicts that alone).
//   unit=bytes|chars  tokens are bytes (0 to 255), or characters of UTF-8, numbered in the order of their code points; the
//                     vocabulary is kept with the model. Without: bytes where the model takes 256 of them, else characters
//   window=T, stride=S  tokens of a window (where the model leaves it open), and from window to window (without: T)
//   val=SHARE|FILE, test=FILE  the last share of each file, or another file
// Bytes are read where they stand; characters lie as 2 bytes each in a Spool: at most 64 MiB in memory, else a temporary file.
#include <algorithm>
#include <map>
#include <optional>

#include "base/spec.h"
#include "data/data_file.h"
#include "data/dataset.h"

namespace tandem {
namespace {

constexpr std::size_t most_characters = 1 << 16;

std::string shown(std::string_view character) {
  return character == "\n" ? "\\n" : character == "\t" ? "\\t" : character == "\r" ? "\\r" : std::string(character);
}

// The length of the character that a byte of UTF-8 begins; 0: none begins so.
std::size_t length_of(unsigned char c) {
  return c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
}

// The characters of a file, in their order.
template <class Each>
void characters(const DataFile& file, const Each& each) {
  FileReader reader(file);
  std::string character;
  for (std::uint64_t at = 0; !reader.done(); at += character.size()) {
    character = reader.next();
    std::size_t length = length_of(static_cast<unsigned char>(character[0]));
    while (character.size() < length)
      if (reader.done() || (static_cast<unsigned char>(reader.peek()) & 0xC0) != 0x80)
        length = 0;
      else
        character += reader.next();
    if (length == 0) fail(ExitCode::data, file.name(), ": byte ", at, " begins no character of UTF-8; unit=bytes reads any file");
    each(character, at);
  }
}

struct Stream {
  std::unique_ptr<DataFile> file;
  std::unique_ptr<Spool> ids;  // of characters
  std::uint64_t begin = 0, end = 0;  // tokens
};

struct Layout {
  std::int64_t window = 0, stride = 0;
  bool next_only = false;
};

// Windows of streams, which do not cross their ends.
class Windows final : public Dataset {
 public:
  Windows(std::string name, std::vector<Stream> streams, Layout layout, std::span<const Field> inputs, std::vector<std::string> vocabulary)
      : name_(std::move(name)), streams_(std::move(streams)), layout_(layout), vocabulary_(std::move(vocabulary)) {
    const Shape window{layout.window};
    fields_.push_back({.name = inputs.empty() ? "x" : inputs[0].name, .sample = {DType::int64, window}});
    fields_.push_back({.name = "y", .role = Role::label, .sample = {DType::int64, layout.next_only ? Shape{} : window}});
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      fields_.push_back({.name = inputs[i].name, .sample = {DType::int64, window}});
      notes_.push_back(
          concat(name_, ": input '", inputs[i].name, "' is ", is_mask(i + 1) ? "1 everywhere" : "the place within the window"));
    }
    for (const Stream& s : streams_) {
      const auto tokens = static_cast<std::int64_t>(s.end - s.begin);
      size_ += tokens > layout.window ? (tokens - layout.window - 1) / layout.stride + 1 : 0;
      ends_.push_back(size_);
    }
    if (size_ == 0)
      fail(ExitCode::data, streams_[0].file->name(), ": ", streams_[0].end - streams_[0].begin,
           vocabulary_.empty() ? " bytes" : " characters", " are no window of ", layout.window, " and the one that follows");
    notes_.push_back(concat(name_, ": ", size_, " windows of ", layout.window, vocabulary_.empty() ? " bytes" : " characters"));
  }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  std::string name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  std::span<const Field> fields() const override { return fields_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<std::string> classes(std::size_t field) const override { return field < 2 ? vocabulary_ : std::vector<std::string>{}; }
  std::string describe(std::int64_t sample) const override {
    const auto [stream, at] = place(sample);
    return concat(stream->file->name(), vocabulary_.empty() ? ": bytes " : ": characters ", at, " to ",
                  at + static_cast<std::uint64_t>(layout_.window) - 1);
  }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* bytes) const override {
    auto* to = reinterpret_cast<std::int64_t*>(bytes);
    const auto window = static_cast<std::size_t>(layout_.window);
    const bool last = field == 1 && layout_.next_only;
    const std::size_t count = last ? 1 : window;
    std::vector<std::byte> raw(count * 2);
    for (const std::int64_t sample : samples) {
      const auto [stream, at] = place(sample);
      const std::uint64_t from = at + (last ? window : field == 1 ? 1 : 0);
      if (field > 1) {
        for (std::size_t i = 0; i < count; ++i) *to++ = is_mask(field) ? 1 : static_cast<std::int64_t>(i);
      } else if (stream->ids) {
        stream->ids->read(from * 2, count * 2, raw.data());
        for (std::size_t i = 0; i < count; ++i) *to++ = reinterpret_cast<const std::uint16_t*>(raw.data())[i];
      } else {
        stream->file->read(from, count, raw.data());
        for (std::size_t i = 0; i < count; ++i) *to++ = std::to_integer<std::int64_t>(raw[i]);
      }
    }
  }

 private:
  bool is_mask(std::size_t field) const { return fields_[field].name.find("mask") != std::string::npos; }
  std::pair<const Stream*, std::uint64_t> place(std::int64_t sample) const {
    const auto stream = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), sample) - ends_.begin());
    const std::int64_t before = stream == 0 ? 0 : ends_[stream - 1];
    return {&streams_[stream], streams_[stream].begin + static_cast<std::uint64_t>((sample - before) * layout_.stride)};
  }

  std::string name_;
  std::vector<Stream> streams_;
  std::vector<std::int64_t> ends_;  // of each stream's windows
  Layout layout_;
  std::int64_t size_ = 0;
  std::vector<Field> fields_;
  std::vector<std::string> vocabulary_, notes_;
};

Layout layout_of(const Spec& spec, const DataRequest& request) {
  Layout o;
  const std::int64_t model = request.inputs.empty() ? 0 : request.inputs[0].sample.shape.elements();
  o.window = spec.integer("window", std::max<std::int64_t>(model, 0));
  if (o.window < 1) fail(ExitCode::usage, "data 'text': window=", o.window, ": expected window=T, of how many tokens a sample is");
  if (model > 0 && o.window != model)
    fail(ExitCode::usage, "data 'text': window=", o.window, ", the model's input '", request.inputs[0].name, "' takes ", model, " tokens");
  o.stride = spec.integer("stride", o.window);
  if (o.stride < 1) fail(ExitCode::usage, "data 'text': stride=", o.stride, ", expected at least 1");
  o.next_only = request.label.dtype != DType::undefined && request.label_rows == 1 && request.label.shape.elements() == 1 && o.window > 1;
  for (std::size_t i = 1; i < request.inputs.size(); ++i)
    if (const Field& f = request.inputs[i];
        f.sample.shape.elements() != o.window || (f.name.find("mask") == std::string::npos && f.name.find("position") == std::string::npos))
      fail(ExitCode::data, "data 'text' has nothing for the model's input '", f.name, "' ", f.sample,
           ": it gives tokens, and inputs called mask or position");
  return o;
}

// What tokens are: bytes, or characters by their place in the vocabulary.
class Tokens {
 public:
  Tokens(const Spec& spec, const DataRequest& request, const std::vector<std::string>& train_files) : request_(request) {
    range_ = request.inputs.empty() ? IndexRange{} : request.inputs[0].indices;
    if (range_.count == 0 || (request.classes > 0 && request.classes < range_.count)) range_ = {0, request.classes, {}};
    std::string unit = spec.text("unit", "");
    if (unit.empty()) {
      unit = !request.class_names.empty() || (range_.count > 0 && range_.count < 256) ? "chars" : "bytes";
      note_ = concat("tokens are ", unit == "bytes" ? "bytes" : "characters",
                     " (unit=", unit == "bytes" ? "chars takes characters)" : "bytes takes bytes)");
    }
    if (unit != "bytes" && unit != "chars") fail(ExitCode::usage, "data 'text': unit=", unit, ", expected bytes or chars");
    chars_ = unit == "chars";
    if (!chars_) return;
    for (const std::string& name : request.class_names) add(name);
    std::map<std::string, bool> found;
    bool anew = places_.empty();
    for (const std::string& path : train_files)
      characters(DataFile(path), [&](const std::string& c, std::uint64_t) {
        if (found.emplace(c, true).second) {
          anew = anew || (request.training && !places_.count(c));
          if (found.size() > most_characters) fail(ExitCode::data, path, ": more than ", most_characters, " different characters");
        }
      });
    if (!anew) return;
    if (!places_.empty()) note_ += concat(note_.empty() ? "" : "; ", "not all characters are among the model's, so they are numbered anew");
    places_.clear();
    vocabulary_.clear();
    for (const auto& [c, there] : found) add(c);  // in the order of their bytes, which is that of their code points
    std::string some;
    for (std::size_t i = 0; i < std::min<std::size_t>(vocabulary_.size(), 80); ++i) some += shown(vocabulary_[i]);
    note_ += concat(note_.empty() ? "" : "; ", vocabulary_.size(), " different characters: ", some, vocabulary_.size() > 80 ? "..." : "");
  }
  const std::string& note() const { return note_; }
  const std::vector<std::string>& vocabulary() const { return vocabulary_; }

  Stream read(const std::string& path) const {
    Stream s{.file = std::make_unique<DataFile>(path)};
    if (chars_) {
      s.ids = std::make_unique<Spool>(path);
      characters(*s.file, [&](const std::string& c, std::uint64_t at) {
        const auto found = places_.find(c);
        if (found == places_.end())
          fail(ExitCode::data, path, ": byte ", at, ": the character '", shown(c), "' is not among the ", places_.size(),
               " that the model was trained on");
        check(found->second, path, at, c);
        s.ids->append(std::as_bytes(std::span(&found->second, 1)));
        ++s.end;
      });
      s.ids->finish();
      return s;
    }
    s.end = s.file->size();
    if (range_.count == 0 || range_.count > 255) return s;
    FileReader reader(*s.file);
    for (std::uint64_t at = 0; !reader.done(); ++at) {
      const char c = reader.next();
      check(static_cast<unsigned char>(c), path, at, std::string(1, c));
    }
    return s;
  }

 private:
  void add(const std::string& character) {
    places_.emplace(character, static_cast<std::uint16_t>(vocabulary_.size()));
    vocabulary_.push_back(character);
  }
  void check(std::int64_t id, const std::string& path, std::uint64_t at, const std::string& character) const {
    if (range_.count > 0 && id >= range_.count)
      fail(ExitCode::data, path, ": byte ", at, ": token ", id, " ('", shown(character), "'), the model takes ", range_.count, " (0 to ",
           range_.count - 1, ')', chars_ ? concat("; there are ", vocabulary_.size(), " different characters") : "");
  }
  const DataRequest& request_;
  IndexRange range_;
  bool chars_ = false;
  std::vector<std::string> vocabulary_;
  std::map<std::string, std::uint16_t> places_;
  std::string note_;
};

}  // namespace

Splits open_text(const Spec& spec, const DataRequest& request) {
  spec.allow({"unit", "window", "stride", "val", "test"}, "data");
  if (spec.argument.empty()) fail(ExitCode::usage, "data 'text' needs a file: text:FILE");
  const Layout layout = layout_of(spec, request);
  const std::string val = spec.text("val", ""), test = spec.text("test", "");
  const bool share = !val.empty() && val.find_first_not_of("0123456789.eE-+") == std::string::npos;
  const double held = share ? parse_number(val, "text: val") : 0;
  if (share && !(held > 0 && held < 1)) fail(ExitCode::usage, "data 'text': val=", val, ", expected a share between 0 and 1, or a file");
  const std::vector<std::string> files = files_of(spec.argument);
  const Tokens tokens(spec, request, files);
  const auto open = [&](const std::vector<std::string>& paths, std::string_view part, double from, double to) {
    std::vector<Stream> streams;
    for (const std::string& path : paths) {
      Stream s = tokens.read(path);
      const auto all = static_cast<double>(s.end);
      s.begin = static_cast<std::uint64_t>(all * from);
      s.end = to < 1 ? static_cast<std::uint64_t>(all * to) : s.end;
      streams.push_back(std::move(s));
    }
    auto data = std::make_unique<Windows>(concat("text:", spec.argument, ", ", part), std::move(streams), layout, request.inputs,
                                          tokens.vocabulary());
    if (!tokens.note().empty()) data->add_note(concat(data->name(), ": ", tokens.note()));
    return data;
  };
  const auto there = [&](std::string_view part) {
    return part == "train" || (part == "validation" && !val.empty()) || (part == "test" && !test.empty());
  };
  Splits splits;
  if (wants_part(request, "train", there)) splits.train = open(files, "train", 0, 1 - held);
  if (there("validation") && wants_part(request, "validation", there))
    splits.validation = share ? open(files, "validation", 1 - held, 1) : open(files_of(val), "validation", 0, 1);
  if (there("test") && wants_part(request, "test", there)) splits.test = open(files_of(test), "test", 0, 1);
  return splits;
}

}  // namespace tandem
