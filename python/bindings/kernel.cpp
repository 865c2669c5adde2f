// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

#include "classes.h"
#include "launch.h"

#include <cstring>
#include <memory>
#include <string>

namespace libtile::python {

namespace {

// A kernel, or the text of one that is compiled when something is asked of it. pybind11 gives an object
// that nobody initialised bare memory: of zeros, it is neither.
class Kernel {
public:
  explicit Kernel(lt_kernel *kernel) : kernel_(kernel) {}
  explicit Kernel(std::string state) : state_(std::make_unique<std::string>(std::move(state))) {}
  static void *operator new(size_t bytes) { return std::memset(::operator new(bytes), 0, bytes); }
  static void operator delete(void *memory) { ::operator delete(memory); }
  ~Kernel() { lt_kernel_free(kernel_); }
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  lt_kernel *get() {
    if (kernel_ == nullptr) {
      lt_kernel *made = nullptr;
      const std::string &text = savedText();
      lt_read_environment();
      {
        const WithoutGil scope;
        made = lt_kernel_restore(text.data(), text.size());
      }
      orThrow(made != nullptr);
      std::swap(kernel_, made); // another thread may have been faster
      lt_kernel_free(made);
    }
    return kernel_;
  }
  [[nodiscard]] py::bytes state() {
    if (kernel_ == nullptr) {
      return savedText();
    }
    size_t length = 0;
    const char *text = lt_kernel_state(kernel_, &length);
    orThrow(text != nullptr);
    return {text, length};
  }
  [[nodiscard]] py::str text(const char *stage) {
    lt_kernel *kernel = get();
    const char *text = nullptr;
    {
      const WithoutGil scope;
      text = lt_kernel_text(kernel, stage);
    }
    orThrow(text != nullptr, Doing::Compiling);
    return text;
  }
  [[nodiscard]] py::bytes code() {
    size_t length = 0;
    const char *bytes = lt_kernel_code(get(), &length);
    return {bytes, length};
  }
  [[nodiscard]] py::list texts(const char *(*at)(const lt_kernel *, size_t)) {
    py::list list;
    lt_kernel *kernel = get();
    for (size_t i = 0; const char *text = at(kernel, i); ++i) {
      list.append(text);
    }
    return list;
  }
  // What the compiler chose and what loading found out.
  [[nodiscard]] py::dict facts() {
    lt_kernel_facts facts{};
    lt_kernel *kernel = get();
    lt_kernel_facts_of(kernel, &facts);
    py::dict all;
    all["name"] = facts.name;
    all["target"] = facts.target;
    all["signature"] = facts.signature;
    all["symbol"] = facts.symbol;
    all["num_warps"] = facts.num_warps;
    all["num_stages"] = facts.num_stages;
    all["threads"] = facts.threads;
    all["shared_bytes"] = facts.shared_bytes;
    all["scratch_bytes"] = facts.scratch_bytes;
    all["compile_ms"] = facts.compile_ms;
    all["cache"] = facts.cache;
    int64_t value = 0;
    for (size_t i = 0; const char *name = lt_kernel_property(kernel, i, &value); ++i) {
      all[name] = value;
    }
    return all;
  }
  void load(int device) {
    lt_kernel *kernel = get();
    lt_device *on = orThrowSet(deviceFor(device));
    lt_status status = LT_OK;
    {
      const WithoutGil scope;
      status = lt_kernel_load(kernel, on);
    }
    orThrow(status == LT_OK);
  }

private:
  [[nodiscard]] const std::string &savedText() const {
    if (state_ == nullptr) {
      throw py::type_error("the kernel was not initialised");
    }
    return *state_;
  }

  lt_kernel *kernel_ = nullptr;
  std::unique_ptr<const std::string> state_;
};

} // namespace

void addKernelClass(py::module_ &module) {
  py::class_<Kernel>(module, "Kernel", "A compiled kernel. It pickles as its IR.")
      .def("text", &Kernel::text, "A stage by name, as text.")
      .def("code", &Kernel::code, "Machine code; none where the driver assembles.")
      .def("facts", &Kernel::facts, "What the compiler chose and what the code needs, by name.")
      .def("load", &Kernel::load, "load(device): loads the code, unless a launch has; facts() then has what loading found out.")
      .def("stages", [](Kernel &self) { return self.texts(lt_kernel_stage); })
      .def("fallbacks", [](Kernel &self) { return self.texts(lt_kernel_fallback); })
      .def("guards", [](Kernel &self) { return self.texts(lt_kernel_guard); })
      .def(py::pickle([](Kernel &self) { return self.state(); },
                      [](const py::bytes &state) { return std::make_unique<Kernel>(std::string(state)); }));
}

PyObject *makeKernel(lt_kernel *kernel, PyObject *jit) {
  try {
    const py::object native = py::cast(std::make_unique<Kernel>(kernel));
    return takingGil([&] { return PyObject_CallMethod(jit, "_kernel_class", "OO", native.ptr(), jit); });
  } catch (py::error_already_set &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

void *makeUser(lt_kernel *kernel) {
  const WithGil gil;
  auto user = std::make_unique<KernelUser>();
  user->answers = CompilingScope::takeAnswers();
  user->kernel = makeKernel(kernel, CompilingScope::jit());
  if (user->kernel == nullptr) {
    keepException("making the kernel object");
    freeUser(user.release());
    return nullptr;
  }
  return user.release();
}

void freeUser(void *user) {
  auto *owned = static_cast<KernelUser *>(user);
  if (Py_IsInitialized() == 0) { // entries may outlive the interpreter
    return;
  }
  const WithGil gil;
  Py_XDECREF(owned->kernel);
  delete owned;
}

int visitUser(const KernelUser &user, visitproc visit, void *arg) {
  Py_VISIT(user.kernel);
  return user.answers.visit(visit, arg);
}

} // namespace libtile::python
