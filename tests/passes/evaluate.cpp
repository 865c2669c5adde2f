// SPDX-License-Identifier: Apache-2.0
#include "tests/passes/evaluate.h"

#include "ir/builder.h"
#include "ir/ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace libtile::test {

using ir::Attr;
using ir::BlockId;
using ir::CmpPred;
using ir::Elem;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

class Evaluator {
public:
  Evaluator(const Function &fn, Machine &machine) : fn_(fn), machine_(machine) {}

  void run(const std::vector<Element> &arguments) {
    for (unsigned i = 0; i < arguments.size(); ++i) {
      set(fn_.arg(fn_.body(), i), {arguments[i]});
    }
    block(fn_.body());
  }

private:
  const Elements &of(ValueId value) const { return values_[value]; }

  void set(ValueId value, Elements elements) {
    if (machine_.observe) {
      machine_.observe(value, elements);
    }
    values_.set(value, std::move(elements));
  }

  // Runs the block's ops; gives the operands of its terminator.
  std::vector<Elements> block(BlockId block) {
    for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
      if (machine_.budget-- == 0) {
        throw std::runtime_error("budget spent");
      }
      if (fn_.opInfo(op).isTerminator()) {
        std::vector<Elements> yielded;
        for (ValueId value : fn_.operands(op)) {
          yielded.push_back(of(value));
        }
        return yielded;
      }
      one(op);
    }
    return {};
  }

  void one(OpId op) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::For || opcode == Opcode::While) {
      return loop(op);
    }
    if (opcode == Opcode::If) {
      const auto yielded = block(fn_.region(op, of(fn_.operand(op, 0))[0].i != 0 ? 0 : 1));
      for (unsigned i = 0; i < yielded.size(); ++i) {
        set(fn_.result(op, i), yielded[i]);
      }
      return;
    }
    if (opcode == Opcode::Store) {
      return store(op);
    }
    if (opcode == Opcode::Reduce || opcode == Opcode::Scan) {
      return alongAxis(op);
    }
    if (opcode == Opcode::Map) {
      return map(op);
    }
    if (fn_.results(op).empty()) {
      return;
    }
    set(fn_.result(op), value(op));
  }

  void loop(OpId op) {
    const bool isFor = fn_.opcode(op) == Opcode::For, stops = fn_.getBool(op, Attr::stop);
    const unsigned first = isFor ? 3 : 0;
    std::vector<Elements> carried;
    for (unsigned i = first; i < fn_.numOperands(op); ++i) {
      carried.push_back(of(fn_.operand(op, i)));
    }
    const BlockId body = fn_.regions(op).back();
    const auto bound = [&](unsigned i) { return of(fn_.operand(op, i))[0].i; };
    __int128 index = isFor ? bound(0) : 0;
    for (bool stop = false; !stop;) {
      const auto enter = [&](BlockId region) {
        for (unsigned i = 0; i < carried.size(); ++i) {
          set(fn_.arg(region, i + (isFor ? 1 : 0)), carried[i]);
        }
      };
      if (isFor) {
        if (bound(2) > 0 ? index >= bound(1) : index <= bound(1)) {
          break;
        }
        set(fn_.arg(body, 0), {{static_cast<int64_t>(index), 0}});
        index += bound(2);
      } else {
        enter(fn_.region(op, 0));
        if (block(fn_.region(op, 0))[0][0].i == 0) {
          break;
        }
      }
      enter(body);
      auto yielded = block(body);
      stop = stops && yielded[0][0].i != 0;
      carried.assign(yielded.begin() + (stops ? 1 : 0), yielded.end());
    }
    for (unsigned i = 0; i < carried.size(); ++i) {
      set(fn_.result(op, i), carried[i]);
    }
  }

  uint8_t *at(int64_t address, unsigned bytes) {
    if (address < 0 || static_cast<uint64_t>(address) + bytes > machine_.memory.size()) {
      throw std::runtime_error("address out of memory");
    }
    return machine_.memory.data() + address;
  }

  Elements load(OpId op) {
    const Type type = fn_.type(fn_.result(op));
    const Elements &pointer = of(fn_.operand(op, 0));
    Elements out(pointer.size());
    const unsigned count = fn_.numOperands(op), bytes = type.elementBytes();
    for (size_t i = 0; i < out.size(); ++i) {
      if (count > 1 && of(fn_.operand(op, 1))[i].i == 0) {
        out[i] = count > 2 ? of(fn_.operand(op, 2))[i] : Element{};
        continue;
      }
      int64_t raw = 0;
      std::memcpy(&raw, at(pointer[i].i, bytes), bytes);
      if (type.elem() == Elem::F32) {
        out[i].f = std::bit_cast<float>(static_cast<uint32_t>(raw));
      } else if (type.elem() == Elem::F64) {
        out[i].f = std::bit_cast<double>(raw);
      } else {
        out[i].i = ir::canonicalInt(type.elem(), raw);
      }
    }
    return out;
  }

  void store(OpId op) {
    const Type type = fn_.type(fn_.operand(op, 1));
    const Elements &pointer = of(fn_.operand(op, 0)), &value = of(fn_.operand(op, 1));
    const unsigned bytes = type.elementBytes();
    for (size_t i = 0; i < value.size(); ++i) {
      if (fn_.numOperands(op) > 2 && of(fn_.operand(op, 2))[i].i == 0) {
        continue;
      }
      int64_t raw = value[i].i;
      if (type.elem() == Elem::F32) {
        raw =
            std::bit_cast<uint32_t>(std::isnan(value[i].f) ? NAN : static_cast<float>(value[i].f));
      } else if (type.elem() == Elem::F64) {
        raw = std::bit_cast<int64_t>(value[i].f);
      }
      std::memcpy(at(pointer[i].i, bytes), &raw, bytes);
    }
  }

  // A reduction, or a scan, which keeps what it has after each element.
  void alongAxis(OpId op) {
    const bool scans = fn_.opcode(op) == Opcode::Scan, reverse = fn_.getBool(op, Attr::reverse);
    const BlockId combine = fn_.region(op);
    const Type in = fn_.type(fn_.operand(op, 0));
    const auto axis = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
    int64_t inner = 1;
    for (unsigned i = axis + 1; i < in.rank(); ++i) {
      inner *= in.dim(i);
    }
    const unsigned count = fn_.numOperands(op);
    const int64_t outer = in.numElements() / inner / in.dim(axis);
    const int64_t made = scans ? in.numElements() : outer * inner;
    std::vector<Elements> out(count, Elements(static_cast<size_t>(made)));
    for (int64_t i = 0; i < outer * inner; ++i) {
      const auto position = [&](int64_t k) {
        k = reverse ? in.dim(axis) - 1 - k : k;
        return static_cast<size_t>((i / inner * in.dim(axis) + k) * inner + i % inner);
      };
      std::vector<Elements> left;
      for (unsigned j = 0; j < count; ++j) {
        left.push_back({of(fn_.operand(op, j))[position(0)]});
      }
      const auto keep = [&](int64_t k) {
        for (unsigned j = 0; j < count; ++j) {
          out[j][scans ? position(k) : static_cast<size_t>(i)] = left[j][0];
        }
      };
      keep(0);
      for (int64_t k = 1; k < in.dim(axis); ++k) {
        for (unsigned j = 0; j < count; ++j) {
          set(fn_.arg(combine, j), left[j]);
          set(fn_.arg(combine, count + j), {of(fn_.operand(op, j))[position(k)]});
        }
        left = block(combine);
        keep(k);
      }
    }
    for (unsigned j = 0; j < count; ++j) {
      set(fn_.result(op, j), std::move(out[j]));
    }
  }

  void map(OpId op) {
    const BlockId body = fn_.region(op);
    std::vector<Elements> out(fn_.results(op).size());
    const auto count = static_cast<size_t>(fn_.type(fn_.result(op)).numElements());
    for (size_t i = 0; i < count; ++i) {
      for (unsigned j = 0; j < fn_.numOperands(op); ++j) {
        set(fn_.arg(body, j), {of(fn_.operand(op, j))[i]});
      }
      const std::vector<Elements> yielded = block(body);
      for (size_t j = 0; j < out.size(); ++j) {
        out[j].push_back(yielded[j][0]);
      }
    }
    for (unsigned j = 0; j < out.size(); ++j) {
      set(fn_.result(op, j), std::move(out[j]));
    }
  }

  Elements histogram(OpId op) const {
    Elements out(static_cast<size_t>(fn_.type(fn_.result(op)).numElements()));
    const Elements &index = of(fn_.operand(op, 0));
    for (size_t i = 0; i < index.size(); ++i) {
      if (fn_.numOperands(op) < 2 || of(fn_.operand(op, 1))[i].i != 0) {
        ++out.at(static_cast<size_t>(index[i].i)).i;
      }
    }
    return out;
  }

  // Which element of the operand the result's element at `index` is.
  [[nodiscard]] size_t sourceOf(const Function &fn, OpId op, std::vector<int64_t> index, size_t at) const {
    const Opcode opcode = fn.opcode(op);
    const auto axis = static_cast<size_t>(fn.getInt(op, Attr::axis));
    const Type from = fn.type(fn.operand(op, 0));
    std::vector<int64_t> source;
    if (opcode == Opcode::ExpandDims) {
      index.erase(index.begin() + fn.getInt(op, Attr::axis));
      source = index;
    } else if (opcode == Opcode::Slice) {
      source = index;
      source[axis] = fn.getInt(op, Attr::start) + index[axis] * fn.getInt(op, Attr::step);
    } else if (opcode == Opcode::Gather) {
      source = index;
      source[axis] = of(fn.operand(op, 1))[at].i;
    } else if (opcode == Opcode::Trans) {
      source.resize(index.size());
      const auto order = fn.getInts(op, Attr::order);
      for (size_t i = 0; i < order.size(); ++i) {
        source[static_cast<size_t>(order[i])] = index[i];
      }
    } else {
      source = index;
      for (unsigned i = 0; i < from.rank(); ++i) {
        source[i] = from.dim(i) == 1 ? 0 : index[i];
      }
    }
    size_t position = 0;
    for (unsigned i = 0; i < from.rank(); ++i) {
      position = position * static_cast<size_t>(from.dim(i)) + static_cast<size_t>(source[i]);
    }
    return position;
  }

  Elements shaped(OpId op) {
    const Type type = fn_.type(fn_.result(op));
    const Elements &in = of(fn_.operand(op, 0));
    Elements out(static_cast<size_t>(type.numElements()));
    for (size_t i = 0; i < out.size(); ++i) {
      std::vector<int64_t> index(type.rank());
      auto rest = static_cast<int64_t>(i);
      for (unsigned axis = type.rank(); axis-- > 0; rest /= type.dim(axis)) {
        index[axis] = rest % type.dim(axis);
      }
      out[i] = in.at(sourceOf(fn_, op, index, i));
    }
    return out;
  }

  Elements dot(OpId op) {
    const Type a = fn_.type(fn_.operand(op, 0)), b = fn_.type(fn_.operand(op, 1));
    const Type type = fn_.type(fn_.result(op));
    Elements out = of(fn_.operand(op, 2));
    const Elements &x = of(fn_.operand(op, 0)), &y = of(fn_.operand(op, 1));
    const int m = type.dim(type.rank() - 2), k = a.dim(a.rank() - 1), n = b.dim(b.rank() - 1);
    for (int i = 0; i < type.numElements(); ++i) {
      for (int kk = 0; kk < k; ++kk) {
        const int slice = i / (m * n);
        const Element &p = x[i / n * k + kk], &q = y[(slice * k + kk) * n + i % n];
        out[i].f += p.f * q.f;
        out[i].i =
            ir::canonicalInt(type.elem(), static_cast<int64_t>(static_cast<uint64_t>(out[i].i) +
                                                               static_cast<uint64_t>(p.i) * q.i));
      }
    }
    return out;
  }

  Elements value(OpId op) {
    const Opcode opcode = fn_.opcode(op);
    const Type type = fn_.type(fn_.result(op));
    const auto count = static_cast<size_t>(type.numElements());
    if (opcode == Opcode::Constant) {
      const ValueId result = fn_.result(op);
      return Elements(count,
                      {fn_.constantInt(result).value_or(0), fn_.constantFloat(result).value_or(0)});
    }
    if (opcode == Opcode::ProgramId || opcode == Opcode::NumPrograms) {
      const int32_t *from = opcode == Opcode::ProgramId ? machine_.program : machine_.grid;
      return {{from[fn_.getInt(op, Attr::axis)], 0}};
    }
    if (opcode == Opcode::Arange) {
      Elements out(count);
      for (size_t i = 0; i < count; ++i) {
        out[i].i = fn_.getInt(op, Attr::start) + static_cast<int64_t>(i);
      }
      return out;
    }
    if (opcode == Opcode::Splat) {
      return Elements(count, of(fn_.operand(op, 0))[0]);
    }
    if (opcode == Opcode::Reshape || opcode == Opcode::Hint) {
      return of(fn_.operand(op, 0));
    }
    if (opcode == Opcode::Histogram) {
      return histogram(op);
    }
    if (opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims || opcode == Opcode::Trans ||
        opcode == Opcode::Slice || opcode == Opcode::Gather) {
      return shaped(op);
    }
    if (opcode == Opcode::Load) {
      return load(op);
    }
    if (opcode == Opcode::Dot) {
      return dot(op);
    }
    Elements out(count);
    for (size_t i = 0; i < count; ++i) {
      std::vector<Element> in;
      for (ValueId operand : fn_.operands(op)) {
        in.push_back(of(operand)[i]);
      }
      out[i] = evaluateElement(fn_, op, in);
    }
    return out;
  }

  const Function &fn_;
  Machine &machine_;
  ir::IndexMap<ValueId, Elements> values_;
};

} // namespace

void evaluate(const Function &fn, const std::vector<Element> &arguments, Machine &machine) {
  Evaluator(fn, machine).run(arguments);
}

} // namespace libtile::test
