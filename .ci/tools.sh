# shellcheck shell=bash
# Programs that the project's checks need and few machines have. They are compiled once and kept in the user's cache folder.

cache_folder() {
    printf '%s\n' "${LASTSTREAM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/laststream}"
}

# tool CRATE VERSION [OPTION...]: prints the folder with the crate's programs, and installs them first if they are not there, with these
# options of cargo.
tool() {
    local root
    root="$(cache_folder)/tools/$1-$2"
    if [[ ! -d $root ]]; then
        install_tool "$1" "$2" "$root" "${@:3}" >&2
    fi
    printf '%s\n' "$root/bin"
}

# The versions that the project is tested with.
cargo_deny() { tool cargo-deny 0.20.2; }
cargo_fuzz() { tool cargo-fuzz 0.13.2; }
cargo_cyclonedx() { tool cargo-cyclonedx 0.5.9; }
tool_mdbook() { tool mdbook 0.5.4 --no-default-features --features search; }
tool_hyperlink() { tool hyperlink 0.3.2; }

# install_tool CRATE VERSION FOLDER [OPTION...]: the folder gets its name only when it is complete. Where `flock` exists, a second run waits instead of
# compiling, too.
install_tool() (
    crate=$1 version=$2 root=$3
    mkdir -p "${root%/*}"
    if command -v flock >/dev/null; then
        exec 9>"$root.lock"
        flock 9
    fi
    if [[ -d $root ]]; then
        exit 0
    fi
    echo "installing $crate $version into $root: takes minutes, once"
    unfinished=$(mktemp -d "$root.XXXXXX")
    trap 'rm -rf "$unfinished"' EXIT
    if ! cargo_install "$crate" "$version" "$unfinished" "${@:4}"; then
        echo "cannot install $crate $version: see cargo's message above"
        exit 1
    fi
    if [[ ! -d $root ]]; then
        mv "$unfinished" "$root"
    fi
)

# cargo_install CRATE VERSION FOLDER [OPTION...]: these programs run for seconds and compile for minutes, so they are not optimised. Settings for the
# project's own code do not apply. Not `--locked`: a published lock file may name versions that were withdrawn, or that a mirror lacks.
cargo_install() {
    env -u CARGO_TARGET_DIR -u CARGO_BUILD_TARGET -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS -u RUSTC_WORKSPACE_WRAPPER \
        CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback \
        cargo install --quiet --root "$3" "${@:4}" "$1@$2"
}

# locked_version LOCK CRATE: prints the version of a crate in a lock file.
locked_version() {
    local version
    version=$(sed -n "/^name = \"$2\"\$/{n;s/^version = \"\(.*\)\"\$/\1/p;}" "$1")
    if [[ -z $version ]]; then
        echo "$1 names no version of $2" >&2
        return 1
    fi
    printf '%s\n' "$version"
}
