// What restricting the hostcalls of an allocator costs: with a set that is built for each allocation, and with a constant list that is
// borrowed. A model with the same containers and the same names, because the host itself needs V8 to do more.
//
// `allowed_hostcalls old|new COUNT` restricts and unrestricts COUNT times; `allowed_hostcalls check` compares the answers of both.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace {

// The names are those of the host's commit in ../base.
#define ALLOWED                                                                                                                           \
    "env.proxy_log", "wasi_unstable.fd_write", "wasi_snapshot_preview1.fd_write", "wasi_unstable.clock_time_get",                         \
        "wasi_snapshot_preview1.clock_time_get", "wasi_unstable.poll_oneoff", "wasi_snapshot_preview1.poll_oneoff"

class Old {
  public:
    void restrict_to_allowed() { set(true, {ALLOWED}); }
    void unrestrict() { set(false, {}); }
    bool allows(const std::string &name) const { return !restricted_ || allowed_.find(name) != allowed_.end(); }

  private:
    void set(bool restricted, std::unordered_set<std::string> allowed) {
        restricted_ = restricted;
        allowed_ = std::move(allowed);
    }

    bool restricted_ = false;
    std::unordered_set<std::string> allowed_;
};

class New {
  public:
    void restrict_to_allowed() {
        static constexpr auto allowed = std::to_array<std::string_view>({ALLOWED});
        set(true, allowed);
    }
    void unrestrict() { set(false, {}); }
    bool allows(const std::string &name) const {
        return !restricted_ || std::ranges::find(allowed_, name) != allowed_.end();
    }

  private:
    void set(bool restricted, std::span<const std::string_view> allowed) {
        restricted_ = restricted;
        allowed_ = allowed;
    }

    bool restricted_ = false;
    std::span<const std::string_view> allowed_;
};

// Called through a volatile pointer, as the allocator in the VM is: the compiler may not join the calls around it.
void allocate() {}
void (*volatile allocator)() = allocate;

template <typename Vm> void allocations(long count) {
    Vm vm;
    for (long done = 0; done < count; done++) {
        vm.restrict_to_allowed();
        allocator();
        vm.unrestrict();
    }
}

// Both must give the same answer for every name, in every state.
int check() {
    const char *names[] = {ALLOWED, "", "env.proxy_done", "env.proxy_lo", "env.proxy_log2", "wasi_unstable.fd_read", "fd_write"};
    int differences = 0;
    Old before;
    New after;
    const auto compare = [&](const char *state) {
        for (const char *name : names) {
            if (before.allows(name) != after.allows(name)) {
                std::fprintf(stderr, "%s: `%s` is allowed only by one\n", state, name);
                differences++;
            }
        }
    };
    compare("at first");
    before.restrict_to_allowed();
    after.restrict_to_allowed();
    compare("restricted");
    before.unrestrict();
    after.unrestrict();
    compare("unrestricted");
    return differences;
}

} // namespace

int main(int count, char **arguments) {
    if (count == 2 && std::strcmp(arguments[1], "check") == 0) {
        return check() == 0 ? 0 : 1;
    }
    if (count == 3 && std::strcmp(arguments[1], "old") == 0) {
        allocations<Old>(std::atol(arguments[2]));
        return 0;
    }
    if (count == 3 && std::strcmp(arguments[1], "new") == 0) {
        allocations<New>(std::atol(arguments[2]));
        return 0;
    }
    std::fputs("usage: allowed_hostcalls check | old COUNT | new COUNT\n", stderr);
    return 64;
}
