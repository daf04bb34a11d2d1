# shellcheck shell=bash
# The checks, one function each.

machine() {
    prepare_machine
}

format() {
    cargo fmt --all --check
    cargo fmt --manifest-path filter/fuzz/Cargo.toml --check
    narrow
    titles
    .ci/names
}

# rustfmt leaves comments, strings and macros as wide as they are. In Markdown, tables and blocks of code may be wider, and a link or a piece
# of code that has a line to itself, and what is made from the code.
narrow() {
    # shellcheck disable=SC2016 # these are Perl's variables
    git ls-files '*.rs' '*.md' ':!docs/cli.md' ':!docs/cost/results.md' | xargs perl -CSD -ne '
        if ($ARGV =~ /md$/) {
            $is_code = !$is_code if /^ *```/;
            next if /^<!-- table:/ .. /^<!-- end -->/;
            next if $is_code or /^ *\|/ or s/!?\[[^]]*\]\([^)]*\)|`[^`]*`/_/gr =~ /^ *([-*] |\d+\. )?\S*$/;
        }
        print "$ARGV: $_" and $is_wide = 1 if /^.{101,}$/;
        END { die "these lines are wider than 100 columns\n" if $is_wide }' >&2
}

# Titles of commits since this was checked, as far as the clone has them: one subject, at most 72 characters.
titles() {
    ! git log --since=2026-11-29T00:30:00Z --format=%s | grep --extended-regexp '.{73}|; ' >&2
}

scripts() {
    shellcheck --external-sources .ci/run .ci/fuzz .ci/loops .ci/mutations .ci/names .ci/*.sh .cargo/wasm-test-runner tests/tools/build-script tests/tools/program \
        tests/mesh/parts/*/build contrib/upstream/make-patch contrib/upstream/*/benchmark/run
}

# walls: no crate reaches what it must not, however indirectly.
walls() {
    local wall crate forbidden
    for wall in "laststream-base kube|reqwest|hyper" "laststream-policy kube|reqwest|hyper" "laststream-lint kube|reqwest|hyper" \
        "laststream-render kube|reqwest|hyper" "laststream-oci kube|laststream-filter" "laststream-gate reqwest|tokio|rustls" \
        "laststream-hook tokio|reqwest|rustls|ring|kube|hyper" "laststream-fleet laststream-local|laststream-oci" "laststream-drain proxy-wasm" \
        "manifest-lint laststream-.*|kube|reqwest|hyper"; do
        read -r crate forbidden <<<"$wall"
        if cargo tree --locked --package "$crate" --edges normal --prefix none --format '{lib}' | sort --unique |
            tr _ - | grep --extended-regexp --line-regexp "$forbidden"; then
            echo "$crate must not reach that crate" >&2
            return 1
        fi
    done
}

lint() {
    lint_host
    lint_module
}

# No module is needed inside the command line.
lint_host() {
    local -x SKIP_WASM_BUILD=1
    rustup component add clippy
    walls
    .ci/circles
    cargo clippy --workspace --all-targets --locked -- --deny warnings
    cargo clippy --test mesh --features mesh --locked -- --deny warnings
}

# The module's border to Envoy is only there for wasm32; the command line turns the `schema` feature on wherever it is along.
lint_module() {
    cargo clippy --package laststream-filter --all-targets --locked -- --deny warnings
    cargo clippy --package laststream-filter --all-targets --locked --features schema -- --deny warnings
    cargo clippy --package laststream-filter --package laststream-drain --lib --locked --target wasm32-unknown-unknown -- --deny warnings
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzz cargo clippy --manifest-path filter/fuzz/Cargo.toml --all-targets --locked -- --deny warnings
}

licences() {
    local programs
    programs=$(cargo_deny)
    cargo fetch --locked
    cargo fetch --locked --manifest-path filter/fuzz/Cargo.toml
    "$programs/cargo-deny" --offline --locked --workspace check licenses bans sources
    "$programs/cargo-deny" --offline --locked --manifest-path filter/fuzz/Cargo.toml check sources
    package
}

# The crates that others may use are ready to publish: each compiles from its archive alone.
package() {
    local crates=(--package manifest-text --package laststream-base --package laststream-http --package laststream-oci --package laststream-drain)
    local folder
    # Cargo takes the packed crates in a folder for unchanged while their version is the same: each run has a new folder.
    folder=$(mktemp -d)
    CARGO_TARGET_DIR=$folder cargo package --quiet --locked --allow-dirty "${crates[@]}"
    rm -r "$folder"
}

# The site for users; and the pages of the crates, for developers of the project, so private items are in, and may be linked to.
docs() {
    SKIP_WASM_BUILD=1 cargo docs
    SKIP_WASM_BUILD=1 RUSTDOCFLAGS='--deny warnings --allow rustdoc::private_intra_doc_links' cargo doc --workspace --no-deps --all-features --document-private-items --locked
}

# With the `schema` feature they are among the tests of `fresh`, and with them the model, which does not depend on it and takes minutes.
pure_tests() {
    counted cargo test --package laststream-filter --package laststream-drain --lib --locked -- --skip gate::model::
    counted cargo test --package laststream-filter --package laststream-drain --lib --locked --target wasm32-unknown-unknown
}

# `fresh` has run the newest.
oldest_envoy() {
    LASTSTREAM_TEST_ENVOYS=oldest counted in_clone cargo test --test envoy --locked -- ::1.
}

oldest_supported_rust() {
    prepare_oldest_rust
    local version
    version=$(oldest_rust)
    SKIP_WASM_BUILD=1 cargo "+$version" check --workspace --all-targets --all-features --locked
    cargo "+$version" check --package laststream-filter --lib --locked --target wasm32-unknown-unknown
}

# The program for macOS is compiled, and not run. No module is needed inside it.
macos() (
    need_pip
    rustup target add aarch64-apple-darwin
    compile_c_with_zig aarch64_apple_darwin aarch64-macos
    SKIP_WASM_BUILD=1 cargo check --package laststream --package laststream-hook --locked --target aarch64-apple-darwin
)

build_script() {
    tests/tools/build-script
}

# A change that makes requests more expensive must update the baseline. With the tests' profile, for what they compile will do.
cost() {
    in_clone cargo bench --bench cost --profile dev --locked -- --check
}

# What operators get, in target/release-files. Not one of the steps of a whole run, because it takes minutes and finds little else.
release() {
    local files=$PWD/target/release-files
    make_release "$files"
    check_programs
    LASTSTREAM_RELEASE_FILES=$files counted cargo test --package laststream-workspace --test envoy --locked -- release::
    mkdir -p target/released
    tar -xzf "$files"/laststream-*-"$(uname -m)"-*.tar.gz -C target/released laststream
    LASTSTREAM_TEST_PROGRAM=$PWD/target/released/laststream counted cargo test --test mesh --features mesh --locked -- m1_install_as_documented
    cat "$files/SHA256SUMS"
}

# The same from a clone in another folder, with other names for everything: the checksums must be those that `release` left.
release_again() (
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
    files=$PWD/target/release-files
    git clone --quiet . "$place/clone"
    ln -s "${CARGO_HOME:-$HOME/.cargo}" "$place/cargo"
    export CARGO_HOME=$place/cargo CARGO_TARGET_DIR=$place/target
    cd "$place/clone" || exit
    make_release "$place/files"
    diff "$files/SHA256SUMS" "$place/files/SHA256SUMS"
)

fuzz() {
    .ci/fuzz 8
}

# A real mesh: Kubernetes, Istio and, as root, a kubelet. The first run compiles them, which takes minutes.
mesh() {
    counted in_clone cargo test --test mesh --features mesh --
}
