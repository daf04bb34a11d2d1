# shellcheck shell=bash
# The files of a release. The static programs are compiled here; the crate `release` puts everything else together.

# make_release FOLDER: writes all files into the folder.
make_release() {
    local work
    prepare_release
    compile_static
    work=$(mktemp -d)
    bill_of_materials "$work/sbom.json"
    rm -rf "$1"
    cargo run --quiet --locked --package laststream-release -- --programs "$CARGO_TARGET_DIR" --sbom "$work/sbom.json" "$1"
    sign_checksums "$1"
    rm -r "$work"
}

# sign_checksums FOLDER: signs them with the owner's key, where LASTSTREAM_SIGNING_KEY names its file.
sign_checksums() {
    if [[ -n ${LASTSTREAM_SIGNING_KEY-} ]]; then
        ssh-keygen -q -Y sign -f "$LASTSTREAM_SIGNING_KEY" -n file "$1/SHA256SUMS"
    else
        echo 'the checksums are not signed: LASTSTREAM_SIGNING_KEY names no key' >&2
    fi
}

# Compiles the static programs for both machines. Rust's own linker links. Neither paths of this machine nor settings of the user get into the programs.
compile_static() (
    unset "${!CARGO_PROFILE_@}" "${!CFLAGS@}" "${!CC@}" "${!AR@}" RUSTFLAGS
    export CFLAGS='-O3 -fPIC -ffunction-sections -fdata-sections -fno-sanitize=undefined'
    for machine in x86_64 aarch64; do
        compile_c_with_zig "${machine}_unknown_linux_musl" "$machine-linux-musl"
    done
    mapfile -t flags < <(static_flags)
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\037' && printf '%s' "${flags[*]}")
    export CARGO_ENCODED_RUSTFLAGS
    targets=(--target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl)
    cargo build --release --package laststream --locked "${targets[@]}"
    cargo build --profile hook --package laststream-hook --locked "${targets[@]}"
)

# compile_c_with_zig TARGET ZIGS_TARGET: for build scripts of the C parts of the cryptography. Zig is one file for all targets and has their headers.
compile_c_with_zig() {
    local zig
    zig=$(tests/tools/program zig)
    export CRATE_CC_NO_DEFAULTS=1 # zig does not know Rust's names of targets
    export ZIG_GLOBAL_CACHE_DIR=$CARGO_TARGET_DIR/zig ZIG_LOCAL_CACHE_DIR=$CARGO_TARGET_DIR/zig
    export "CC_$1=$zig cc -target $2" "AR_$1=$zig ar"
}

# Prints the compiler's flags, one to a line. If two prefixes match, the compiler uses the later one.
static_flags() {
    local sysroot commit
    sysroot=$(rustc --print sysroot)
    commit=$(rustc --version --verbose | sed -n 's/^commit-hash: //p')
    # Without `relr`, the relocations in the program for x86_64 take about 1.6 MB.
    printf -- '-C%s\n' linker=rust-lld linker-flavor=ld.lld link-self-contained=yes link-arg=--pack-dyn-relocs=relr
    printf -- '--remap-path-prefix=%s\n' "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$sysroot/lib/rustlib/src/rust=/rustc/$commit" "$PWD=/laststream" \
        "$CARGO_TARGET_DIR=/target"
}

# bill_of_materials FILE: writes the SBOM. The tool writes files beside the manifests, so it gets a copy of the sources.
bill_of_materials() (
    programs=$(cargo_cyclonedx)
    cargo fetch --locked
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    git ls-files -z | xargs --null cp --parents --target-directory "$copy"
    CARGO_NET_OFFLINE=true "$programs/cargo-cyclonedx" cyclonedx --quiet --manifest-path "$copy/companion-cli/Cargo.toml" --format json --all \
        --target x86_64-unknown-linux-musl --spec-version 1.5 --override-filename sbom
    cp "$copy/companion-cli/sbom.json" "$1"
)

# check_programs: checks that each program is small enough, and runs without any other file.
check_programs() {
    local machine
    for machine in x86_64 aarch64; do
        check_program "$machine" release/laststream 25000000 # half of it is the project's own; no dependency stands out
        check_program "$machine" hook/laststream-hook 2000000
    done
}

# check_program MACHINE FILE BYTES
check_program() {
    local program=$CARGO_TARGET_DIR/$1-unknown-linux-musl/$2 size
    size=$(stat --format %s "$program")
    echo "$2 for $1: $size bytes"
    if [[ $size -ge $3 ]]; then
        echo "that is more than $3 bytes" >&2
        return 1
    fi
    run_alone "$1" "$program" --version
}

# run_alone MACHINE PROGRAM ARGUMENT...: runs a program with nothing else in the file system, on an emulator where it is for another machine.
run_alone() (
    machine=$1 program=$2
    shift 2
    root=$(mktemp -d)
    trap 'rm -r "$root"' EXIT
    cp "$program" "$root/program"
    emulator=()
    if [[ $machine != "$(uname -m)" ]]; then
        cp "$(tests/tools/program "qemu-$machine-static")" "$root/emulator"
        emulator=(/emulator)
    fi
    in_root "$root" "${emulator[@]}" /program "$@"
)
