// A vector with one entry for each value, node, buffer or step, found by its id: an index of another kind does not compile.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace tandem {

inline std::size_t at(int i) { return static_cast<std::size_t>(i); }  // an index of the standard's containers

// `Id` has an `index` that begins at 0; absent ids (-1) have no entry.
template <class Id, class T>
class IdVector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  IdVector(std::vector<T> entries) : std::vector<T>(std::move(entries)) {}
  using std::vector<T>::operator[];
  decltype(auto) operator[](Id id) { return (*this)[static_cast<std::size_t>(id.index)]; }
  decltype(auto) operator[](Id id) const { return (*this)[static_cast<std::size_t>(id.index)]; }
  Id add(T entry) {
    this->push_back(std::move(entry));
    return Id{static_cast<int>(this->size()) - 1};
  }
};

}  // namespace tandem
