// SPDX-License-Identifier: Apache-2.0
// One walk in text order with a table of the ops seen, scoped by region: what a region adds is
// taken out again at its end. An alloc is never merged: its identity is its meaning.
#include "passes/eliminate_common_subexpressions.h"

#include "passes/op_properties.h"

#include <algorithm>
#include <unordered_map>

namespace libtile::passes {

using ir::BlockId;
using ir::Function;
using ir::OpId;
using ir::ValueId;

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

class CommonSubexpressions {
public:
  explicit CommonSubexpressions(Function &fn) : fn_(fn) {}

  bool run() {
    visit(fn_.body());
    return changed_;
  }

private:
  void visit(BlockId block) {
    const size_t mark = log_.size();
    for (OpId op : fn_.opsIn(block)) {
      if (isMergeable(op)) {
        merge(op);
        continue;
      }
      for (BlockId region : fn_.regions(op)) {
        visit(region);
      }
    }
    for (; log_.size() > mark; log_.pop_back()) {
      table_[log_.back().first] = log_.back().second;
    }
  }

  [[nodiscard]] bool isMergeable(OpId op) const {
    return fn_.regions(op).empty() && fn_.results(op).size() == 1 && fn_.ownEffects(op).pure() &&
           !fn_.type(fn_.result(op)).isBuffer();
  }

  void merge(OpId op) {
    const uint64_t key = hash(op);
    const auto found = table_.find(key);
    const OpId newest = found == table_.end() ? OpId{} : found->second;
    for (OpId other = newest; other.valid(); other = older_[other]) {
      if (equal(op, other)) {
        fn_.replaceAllUses(fn_.result(op), fn_.result(other));
        fn_.erase(op);
        changed_ = true;
        return;
      }
    }
    log_.emplace_back(key, newest);
    older_.set(op, newest);
    table_[key] = op;
  }

  [[nodiscard]] ir::Values operands(OpId op) const {
    ir::Values values(fn_.operands(op).begin(), fn_.operands(op).end());
    if (commutes(fn_.opcode(op))) {
      std::sort(values.begin(), values.end());
    }
    return values;
  }

  [[nodiscard]] uint64_t hash(OpId op) const {
    uint64_t result = mix(0, static_cast<uint64_t>(fn_.opcode(op)));
    for (ValueId value : operands(op)) {
      result = mix(result, value.index);
    }
    for (const auto &[attr, value] : fn_.attrs(op)) {
      result = mix(result, static_cast<uint64_t>(attr));
      if (const auto *number = std::get_if<int64_t>(&value)) {
        result = mix(result, static_cast<uint64_t>(*number));
      } else if (const auto *real = std::get_if<double>(&value)) {
        result = mix(result, std::bit_cast<uint64_t>(*real));
      } else if (const auto *text = std::get_if<std::string>(&value)) {
        result = mix(result, std::hash<std::string>()(*text));
      } else {
        for (int64_t entry : std::get<std::vector<int64_t>>(value)) {
          result = mix(result, static_cast<uint64_t>(entry));
        }
      }
    }
    const ir::Type type = fn_.type(fn_.result(op));
    result = mix(result, static_cast<uint64_t>(type.elem()) * 8 + type.pointerDepth());
    for (int32_t extent : type.shape()) {
      result = mix(result, static_cast<uint64_t>(extent));
    }
    return result;
  }

  [[nodiscard]] bool equal(OpId a, OpId b) const {
    if (fn_.opcode(a) != fn_.opcode(b) || fn_.type(fn_.result(a)) != fn_.type(fn_.result(b)) ||
        operands(a) != operands(b)) {
      return false;
    }
    return std::ranges::equal(fn_.attrs(a), fn_.attrs(b), [](const auto &x, const auto &y) {
      const auto *p = std::get_if<double>(&x.second), *q = std::get_if<double>(&y.second);
      // By bits: 0.0 is not -0.0, and a NaN is itself.
      return x.first == y.first && (p != nullptr && q != nullptr
                                        ? std::bit_cast<uint64_t>(*p) == std::bit_cast<uint64_t>(*q)
                                        : x.second == y.second);
    });
  }

  Function &fn_;
  std::unordered_map<uint64_t, OpId> table_;
  ir::IndexMap<OpId, OpId> older_; // the next one with the same hash
  std::vector<std::pair<uint64_t, OpId>> log_;
  bool changed_ = false;
};

} // namespace

bool eliminateCommonSubexpressions(Function &fn, const PassContext &) {
  return CommonSubexpressions(fn).run();
}

} // namespace libtile::passes
