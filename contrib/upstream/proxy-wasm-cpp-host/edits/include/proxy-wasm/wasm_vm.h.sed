# The list is borrowed, no longer copied.
/^#include <functional>$/i #include <algorithm>
/^#include <optional>$/a #include <span>
/^#include <unordered_set>$/d
372c\
    return !restricted_callback_ ||\
           std::ranges::find(allowed_hostcalls_, name) != allowed_hostcalls_.end();
374a\
  // While restricted, only the named hostcalls are allowed. This is called for each allocation in\
  // the VM, so the list is not copied: it must outlive the restriction.
376s/std::unordered_set<std::string>/std::span<const std::string_view>/
378s/std::move(\(.*\))/\1/
392s/std::unordered_set<std::string>/std::span<const std::string_view>/
