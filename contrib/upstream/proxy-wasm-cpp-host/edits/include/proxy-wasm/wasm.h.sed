# The list of `allocMemory` is a constant.
/^#include <string.h>$/{
n
a #include <array>
}
397c\
  static constexpr auto allowed_hostcalls = std::to_array<std::string_view>(
398s/true, //
399,405s/^      //
405a\
  wasm_vm_->setRestrictedCallback(true, allowed_hostcalls);
