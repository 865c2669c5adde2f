// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/tensor_maps.h"

#include <algorithm>
#include <bit>

namespace libtile::runtime {
namespace {

constexpr size_t kMostDims = ir::TensorMap::kMostDims;

// What a descriptor is made of: the array, and of each dimension, fastest first, extent, distance in bytes and box.
struct Key {
  uint64_t base = 0;
  uint64_t extents[kMostDims] = {}, strides[kMostDims] = {};
  uint32_t box[kMostDims] = {};
  uint32_t elementBytes = 0;
  bool isF32 = false;
  uint64_t rank = 0;
  friend bool operator==(const Key &, const Key &) = default;
};

uint64_t valueOf(const ir::LaunchNumber &number, const uint64_t *arguments) noexcept {
  const uint64_t value = number.param < 0 ? 1 : arguments[number.param];
  return static_cast<uint64_t>(number.factor) * value;
}

Key keyOf(const ir::TensorMap &map, const uint64_t *arguments) noexcept {
  Key key;
  key.base = arguments[map.param];
  key.elementBytes = ir::byteSize(map.elem);
  key.isF32 = map.elem == ir::Elem::F32;
  key.rank = map.dims.size();
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const ir::TensorMap::Dim &dim = map.dims[map.dims.size() - 1 - i];
    key.extents[i] = valueOf(dim.extent, arguments);
    key.strides[i] = valueOf(dim.stride, arguments);
    key.box[i] = static_cast<uint32_t>(dim.box);
  }
  return key;
}

cuda::Result encodeKey(decltype(cuda::Api::cuTensorMapEncodeTiled) encode, const Key &key,
                       TensorMapDescriptor &made) noexcept {
  // Integers of the element's size: 1, 2, 4 and 8 bytes are 0, 1, 2 and 4. Of floats that are added the type counts: f32 is 7.
  const int type = key.isF32 ? 7 : key.elementBytes == 8 ? 4 : std::countr_zero(key.elementBytes);
  const uint32_t each[kMostDims] = {1, 1, 1, 1, 1};
  // Rows of 32, 64 and 128 bytes are 1, 2 and 3; a row by itself is 0.
  const bool isRow = std::all_of(key.box + 1, key.box + key.rank, [](uint32_t box) { return box == 1; });
  const int swizzle = isRow ? 0 : std::countr_zero(key.box[0] * key.elementBytes) - 4;
  constexpr int kNotInterleaved = 0, kLinesOf256Bytes = 3, kZeros = 0;
  return encode(made.words, type, static_cast<uint32_t>(key.rank), reinterpret_cast<void *>(key.base), key.extents,
                key.strides + 1, key.box, each, kNotInterleaved, swizzle, kLinesOf256Bytes, kZeros);
}

} // namespace

cuda::Result makeTensorMap(decltype(cuda::Api::cuTensorMapEncodeTiled) encode, const ir::TensorMap &map,
                           const uint64_t *arguments, TensorMapDescriptor &made) noexcept {
  struct Entry {
    Key key;
    TensorMapDescriptor made;
  };
  constexpr size_t kEntries = 16;
  thread_local Entry kept[kEntries];
  const Key key = keyOf(map, arguments);
  uint64_t hash = key.base;
  for (size_t i = 0; i < key.rank; ++i) {
    hash = (hash ^ key.extents[i] ^ key.strides[i] << 20 ^ key.box[i]) * 0x9E3779B97F4A7C15;
  }
  Entry &entry = kept[hash >> 60];
  static_assert(kEntries == 16);
  if (!(entry.key == key)) {
    if (const cuda::Result result = encodeKey(encode, key, entry.made)) {
      entry.key = {};
      return result;
    }
    entry.key = key;
  }
  made = entry.made;
  return 0;
}

} // namespace libtile::runtime
