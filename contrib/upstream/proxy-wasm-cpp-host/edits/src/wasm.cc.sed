# The list of `startVm` is a constant, too, because `setRestrictedCallback` borrows it.
/^#include <algorithm>$/a #include <array>
381c\
  static constexpr auto allowed_hostcalls = std::to_array<std::string_view>(
382d
440a\
  wasm_vm_->setRestrictedCallback(true, allowed_hostcalls);
