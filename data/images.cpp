// Folders of image files, a folder a class, as torchvision's ImageFolder reads them: DIR/train/cat/1.jpg, DIR/val/dog/2.png,
// or DIR/cat/1.jpg where there are no such parts. Without labels, to predict: one image file, or a folder of image files alone.
// Files are found when the data is opened and read when they are wanted.
#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "base/input_file.h"
#include "base/spec.h"
#include "data/dataset.h"
#include "data/limits.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view endings[] = {".jpg", ".jpeg", ".png", ".webp", ".ppm", ".pgm", ".pnm", ".bmp", ".gif", ".tif", ".tiff"};

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return std::find(std::begin(endings), std::end(endings), ending) != std::end(endings);
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error))
    if (std::error_code of_entry; it->is_directory(of_entry) && !it->path().filename().string().starts_with('.'))
      names.push_back(it->path().filename().string());
  if (error) fail(ExitCode::io, folder.string(), ": cannot be read: ", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// The image files below folders, as the data has them.
class Finder {
 public:
  // Folders that no link leads into: the root's and those of its classes, of which each has its own images.
  explicit Finder(const fs::path& root) {
    for (fs::path above = canonical(root);; above = above.parent_path()) {
      closed_.insert(above);
      if (!above.has_relative_path()) break;
    }
    for (const std::string& name : folders_in(root)) closed_.insert(canonical(root / name));
  }
  // Sorted, relative to `folder`. Links are followed, but not into the root, a class or a folder that was met before.
  std::vector<std::string> below(const fs::path& folder) {
    std::vector<std::string> paths;
    std::set<fs::path> met{canonical(folder)};
    add(folder, folder, met, paths);
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  // What was left out, for the user; empty: nothing.
  std::string note() const {
    constexpr std::size_t most = 5;
    if (left_out_.empty()) return "";
    std::string names;
    for (std::size_t i = 0; i < std::min(most, left_out_.size()); ++i) names += concat(i ? ", " : "", left_out_[i]);
    return concat("left out, as only regular files are read: ", names,
                  left_out_.size() > most ? concat(" and ", left_out_.size() - most, " more") : "");
  }

 private:
  static fs::path canonical(const fs::path& path) {
    std::error_code error;
    fs::path real = fs::canonical(path, error);
    return error ? path : real;
  }
  void add(const fs::path& root, const fs::path& folder, std::set<fs::path>& met, std::vector<std::string>& paths) {
    std::error_code error;
    for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
      std::error_code of_entry;  // a link to nothing, or to itself
      if (it->is_directory(of_entry)) {
        const fs::path real = canonical(it->path());
        if (!closed_.contains(real) && met.insert(real).second) add(root, it->path(), met, paths);
      } else if (is_image(it->path())) {
        if (it->is_regular_file(of_entry))
          paths.push_back(it->path().lexically_relative(root).string());
        else
          left_out_.push_back(it->path().string());
      }
    }
    if (error) fail(ExitCode::io, folder.string(), ": cannot be read: ", error.message());
  }
  std::set<fs::path> closed_;
  std::vector<std::string> left_out_;
};

class ImageFolder final : public Dataset {
 public:
  // Files of `folder`, without labels.
  ImageFolder(std::string name, fs::path folder, std::vector<std::string> files, const std::string& note)
      : name_(std::move(name)), folder_(std::move(folder)), files_(std::move(files)) {
    if (!note.empty()) notes_.push_back(concat(name_, ": ", note));
    fields_.push_back(image_field());
  }
  // `classes`: by index; folders of other names are refused.
  ImageFolder(std::string name, fs::path folder, std::vector<std::string> classes, std::vector<std::string> notes)
      : name_(std::move(name)), folder_(std::move(folder)), classes_(std::move(classes)), notes_(std::move(notes)) {
    std::string empty;
    Finder finder(folder_);
    for (const std::string& label : folders_in(folder_)) {
      const auto at = std::find(classes_.begin(), classes_.end(), label);
      if (at == classes_.end())
        fail(ExitCode::data, (folder_ / label).string(), ": a class that ", classes_.size(), " others are not: ", list_of(classes_));
      const std::vector<std::string> files = finder.below(folder_ / label);
      if (files.empty()) empty += concat(empty.empty() ? "" : ", ", label);
      for (const std::string& file : files) {
        files_.push_back(concat(label, '/', file));
        labels_.push_back(at - classes_.begin());
      }
    }
    if (files_.empty())
      fail(ExitCode::data, folder_.string(),
           ": no images in it: expected a folder a class, with files that end in .jpg, .png, .webp, .ppm or .pgm (folders called train, "
           "val, valid, validation and test are parts of the data, not classes)");
    if (const std::string note = finder.note(); !note.empty()) notes_.push_back(concat(name_, ": ", note));
    if (!empty.empty())
      notes_.push_back(concat(folder_.string(), ": no images of the class", empty.find(',') == std::string::npos ? " " : "es ", empty));
    fields_.push_back(image_field());
    fields_.push_back({.name = "labels", .role = Role::label, .sample = {DType::int64, {}}});
  }
  static Field image_field() {
    return {.name = "images", .sample = {DType::uint8, {}}, .axes = Axes::channels_last, .pixels = true, .encoded = true};
  }
  static std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 10;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += concat(text.empty() ? "" : ", ", names[i]);
    return names.size() > most ? text + ", ..." : text;
  }
  std::string name() const override { return name_; }
  std::int64_t size() const override { return std::ssize(files_); }
  std::span<const Field> fields() const override { return fields_; }
  void read(std::size_t field, std::span<const std::int64_t> samples, std::byte* to) const override {
    if (field != 1) fail(ExitCode::data, name_, ": '", fields_[field].name, "' holds image files, not numbers");
    auto* out = reinterpret_cast<std::int64_t*>(to);
    for (const std::int64_t sample : samples) *out++ = labels_[static_cast<std::size_t>(sample)];
  }
  void encoded(std::size_t field, std::int64_t sample, std::vector<std::byte>& to) const override {
    if (field != 0) return Dataset::encoded(field, sample, to);
    const fs::path path = folder_ / files_[static_cast<std::size_t>(sample)];
    const InputFile file = open(static_cast<std::size_t>(sample), path);
    check_unchanged(static_cast<std::size_t>(sample), path.string(), file.state());
    if (file.size() > data_limits::image_bytes)
      fail(ExitCode::data, path.string(), ": ", file.size(), " bytes, more than ", data_limits::image_bytes, " are not read as an image");
    to.resize(static_cast<std::size_t>(file.size()));
    file.read(reinterpret_cast<char*>(to.data()), to.size(), 0);
  }
  std::string describe(std::int64_t sample) const override { return (folder_ / files_[static_cast<std::size_t>(sample)]).string(); }
  std::vector<std::string> classes(std::size_t field) const override { return field == 1 ? classes_ : std::vector<std::string>{}; }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  InputFile open(std::size_t sample, const fs::path& path) const {
    try {
      return {path, ExitCode::data};
    } catch (const Error&) {
      const std::scoped_lock lock(states_mutex_);
      if (!states_.empty() && states_[sample].size >= 0 && !fs::exists(path))
        fail(ExitCode::data, path.string(), ": has gone while it is in use");
      throw;
    }
  }
  // A file is the same whenever it is read.
  void check_unchanged(std::size_t sample, const std::string& name, const FileState& now) const {
    const std::scoped_lock lock(states_mutex_);
    if (states_.empty()) states_.resize(files_.size());
    FileState& was = states_[sample];
    if (was.size < 0) was = now;
    if (was != now) fail(ExitCode::data, name, ": has changed while it is in use: ", difference(was, now));
  }

  mutable std::mutex states_mutex_;
  mutable std::vector<FileState> states_;  // as it was first read, by sample
  std::string name_;
  fs::path folder_;
  std::vector<std::string> classes_;
  std::vector<std::string> notes_;
  std::vector<Field> fields_;
  std::vector<std::string> files_;  // below folder_
  std::vector<std::int64_t> labels_;
};

}  // namespace

Splits open_images(const Spec& spec, const DataRequest& request) {
  spec.allow({}, "data");
  if (spec.argument.empty()) fail(ExitCode::usage, "data 'images' needs a folder: images:DIR");
  const fs::path root = spec.argument;
  Splits splits;
  std::error_code error;
  if (fs::is_regular_file(root, error) && is_image(root)) {
    splits.test =
        std::make_unique<ImageFolder>(concat("images:", spec.argument), root.parent_path(), std::vector{root.filename().string()}, "");
    return splits;
  }
  if (!fs::is_directory(root, error)) fail(ExitCode::io, root.string(), fs::exists(root, error) ? ": not a folder" : ": no such folder");
  std::map<std::string, fs::path, std::less<>> parts;
  for (const auto& [folder, part] :
       {std::pair{"train", "train"}, {"val", "validation"}, {"valid", "validation"}, {"validation", "validation"}, {"test", "test"}})
    if (fs::is_directory(root / folder, error))
      if (const auto [it, added] = parts.try_emplace(part, root / folder); !added)
        fail(ExitCode::data, root.string(), ": has both ", it->second.filename().string(), "/ and ", folder, '/');
  if (parts.empty() && !request.training && folders_in(root).empty()) {
    Finder finder(root);
    std::vector<std::string> files = finder.below(root);
    if (files.empty()) fail(ExitCode::data, root.string(), ": no images in it: expected files that end in .jpg, .png, .webp, .ppm or .pgm");
    splits.test = std::make_unique<ImageFolder>(concat("images:", spec.argument), root, std::move(files), finder.note());
    return splits;
  }
  std::vector<std::string> notes;
  if (parts.empty()) {
    parts["train"] = root;
  } else {
    for (const std::string& folder : folders_in(root))
      if (std::none_of(parts.begin(), parts.end(), [&](const auto& part) { return part.second.filename() == folder; }))
        notes.push_back(concat(root.string(), ": ", folder, "/ is none of its parts and left out"));
  }
  // Classes have their numbers by their names' order: of the model that was trained, else of the training part.
  const fs::path& first = parts.contains("train") ? parts["train"] : parts.begin()->second;
  std::vector<std::string> classes = folders_in(first);
  const auto known = [&](const std::string& name) {
    return std::find(request.class_names.begin(), request.class_names.end(), name) != request.class_names.end();
  };
  if (!request.class_names.empty() && (!request.training || std::all_of(classes.begin(), classes.end(), known)))
    classes = request.class_names;
  const auto there = [&](std::string_view part) { return parts.find(part) != parts.end(); };
  for (const auto& [part, to] : {std::pair{"train", &splits.train}, {"validation", &splits.validation}, {"test", &splits.test}})
    if (there(part) && wants_part(request, part, there))
      *to = std::make_unique<ImageFolder>(concat("images:", spec.argument, ", ", part), parts.find(part)->second, classes, notes);
  return splits;
}

}  // namespace tandem
