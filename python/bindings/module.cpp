// SPDX-License-Identifier: Apache-2.0
// The extension module libtile._libtile. It links libtile.so alone; both come from one build, which
// the version of the bindings confirms at import.
#include "classes.h"

#include <cstring>

namespace libtile::python {

Installed installed;

namespace {

// install(**objects): what the extension calls in the package.
void install(const py::kwargs &objects) {
  const struct {
    const char *name;
    PyObject **slot;
  } slots[] = {
      {"make_error", &installed.makeError},       {"compile_info", &installed.compileInfo},
      {"global_value", &installed.globalValue},   {"default_value", &installed.defaultValue},
      {"attribute_value", &installed.attributeValue}, {"names", &installed.names},
      {"call", &installed.callValue},             {"describe", &installed.describe},
      {"print", &installed.print},                {"unbound", &installed.unbound},
      {"constant", &installed.constant},          {"convert", &installed.convert},
      {"launch_info", &installed.launchInfo},
  };
  for (const auto &[name, slot] : slots) {
    if (!objects.contains(name)) {
      throw py::type_error("install: '" + std::string(name) + "' is missing");
    }
    Py_XSETREF(*slot, py::object(objects[name]).release().ptr());
  }
  installHost();
}

py::list language() {
  size_t count = 0;
  const lt_language_row *rows = lt_language_rows(&count);
  py::list list;
  for (size_t i = 0; i < count; ++i) {
    list.append(py::make_tuple(rows[i].sort, rows[i].name, rows[i].kind, rows[i].signature, rows[i].doc));
  }
  return list;
}

py::list options() {
  static const char *const kKinds[] = {"integer", "power of two", "flag", "object"};
  size_t count = 0;
  const lt_option *rows = lt_option_rows(&count);
  py::list list;
  for (size_t i = 0; i < count; ++i) {
    list.append(py::make_tuple(rows[i].name, kKinds[rows[i].kind], rows[i].standard, rows[i].doc));
  }
  return list;
}

size_t countBlockLines(const std::string &text) { return lt_count_block_lines(text.data(), text.size()); }

} // namespace

} // namespace libtile::python

PYBIND11_MODULE(_libtile, module) {
  using namespace libtile::python;
  if (std::strcmp(lt_bindings_version(), LT_BINDINGS_VERSION " " LIBTILE_VERSION) != 0) {
    throw py::import_error("libtile.so (" + std::string(lt_bindings_version()) +
                           ") and its Python module (" LT_BINDINGS_VERSION " " LIBTILE_VERSION
                           ") are of different builds");
  }
  if (!addValueTypes(module.ptr()) || !addJitTypes(module.ptr()) || !addTunerType(module.ptr())) {
    throw py::error_already_set();
  }
  addKernelClass(module);
  addDeviceFunctions(module);
  module.attr("version") = LIBTILE_VERSION;
  module.def("install", install);
  module.def("language", language, "(sort, name, kind, signature, doc) of each row of language.def.");
  module.def("options", options, "(name, kind, standard value, doc) of each option.");
  module.def("count_block_lines", countBlockLines, "How many lines the function has that the text begins with.");
  module.def("num_retired", lt_num_retired, "Specialisations that serve no more and are not freed yet.");
}
