// What a data set's samples become before a model sees them, as a user says it.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

enum class Filter { bilinear, bicubic };

// How an image of any size becomes one of the model's.
struct Resizing {
  // The shorter side becomes so many pixels before the middle is cropped; 0: what covers the model's size.
  std::int64_t shorter = 0;
  bool stretch = false;  // both sides at once, without a crop
  Filter filter = Filter::bilinear;
};
// "crop", "stretch", "256", "256,bicubic". Fails (usage).
Resizing parse_resizing(std::string_view text);
std::string text_of(const Resizing& resizing);

// One step of an --augment recipe, on images of bytes.
struct Augmentation {
  std::string name;
  double amount = 0;
  std::int64_t times = 1;
};

struct Preprocess {
  std::vector<double> mean, deviation;  // of each channel, or one for all; x becomes (x - mean) / deviation
  int crop = 0;                         // pad by so many pixels, then crop at a random place
  bool flip = false;                    // mirror half of the images
  bool random_box = false;              // of image files: random_box of the whole, instead of `crop`
  std::vector<Augmentation> recipe;     // then these, in this order, of images of bytes
  // Samples of a batch are mixed in training, by shares from Beta(alpha, alpha): torchvision's MixUp and CutMix (of both one is drawn for
  // each batch). Labels become shares of classes. 0: not.
  double mixup = 0, cutmix = 0;
  bool mixes() const { return mixup > 0 || cutmix > 0; }
  Resizing resizing;                    // of image files
  bool measure = false;                 // mean and deviation are to be measured: measure_normalize
  std::int64_t workers = 0;             // threads that prepare batches; 0: one, or as many as a quarter of the cores for image files
  // Image files that cannot be decoded: so many at most are replaced by the next sample that can, with a call for each.
  std::int64_t bad_samples = 0;
  std::function<void(const std::string& why)> on_bad_sample;
};
// "0.1307,0.3081", or all means and then all deviations: "m1,m2,m3,d1,d2,d3"; "imagenet"; "auto"; "none". Fails (usage).
void parse_normalize(Preprocess& preprocess, std::string_view text);
std::string text_of_normalize(const Preprocess& preprocess);  // as it is read above
// A list of "crop", "flip" and the names of augmentations(), each with =AMOUNT where it is to be another: "crop=2,flip",
// "crop,flip,rotate=10,jitter", "randaugment=2x9" (twice); and the names of recipes. crop alone pads 4 pixels, or, of image
// files, takes a random box. Fails (usage).
void parse_augment(Preprocess& preprocess, std::string_view text);
std::string text_of_augment(const Preprocess& preprocess);  // as it is read above, recipes as their steps; empty: none
struct Recipe {
  std::string_view name, steps;
};
std::span<const Recipe> augmentation_recipes();

}  // namespace tandem
