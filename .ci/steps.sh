# shellcheck shell=bash
# The checks, one function each.

machine() {
    prepare_machine
}

format() {
    cargo fmt --all --check
    cargo fmt --manifest-path filter/fuzz/Cargo.toml --check
}

scripts() {
    shellcheck --external-sources .ci/run .ci/fuzz .ci/*.sh .cargo/wasm-test-runner tests/tools/build-script tests/tools/program \
        tests/mesh/parts/*/build
}

# The module's border to Envoy is only there for wasm32; the command line turns the `schema` feature on wherever it is along.
lint() {
    cargo clippy --workspace --all-targets --locked -- --deny warnings
    cargo clippy --test mesh --features mesh --locked -- --deny warnings
    cargo clippy --package laststream-filter --all-targets --locked -- --deny warnings
    cargo clippy --package laststream-filter --all-targets --locked --features schema -- --deny warnings
    cargo clippy --package laststream-filter --lib --locked --target wasm32-unknown-unknown -- --deny warnings
    CARGO_TARGET_DIR=$CARGO_TARGET_DIR/fuzz cargo clippy --manifest-path filter/fuzz/Cargo.toml --all-targets --locked -- --deny warnings
}

licences() {
    local programs
    programs=$(cargo_deny)
    cargo fetch --locked
    cargo fetch --locked --manifest-path filter/fuzz/Cargo.toml
    "$programs/cargo-deny" --offline --locked --workspace check licenses bans sources
    "$programs/cargo-deny" --offline --locked --manifest-path filter/fuzz/Cargo.toml check sources
}

# For whoever works on the project, so private items are in, and may be linked to.
docs() {
    RUSTDOCFLAGS='--deny warnings --allow rustdoc::private_intra_doc_links' cargo doc --workspace --no-deps --all-features --document-private-items --locked
}

pure_tests() {
    counted cargo test --package laststream-filter --lib --locked
    counted cargo test --package laststream-filter --lib --locked --features schema
    counted cargo test --package laststream-filter --lib --locked --target wasm32-unknown-unknown
}

oldest_supported_rust() {
    prepare_oldest_rust
    local version
    version=$(oldest_rust)
    SKIP_WASM_BUILD=1 cargo "+$version" check --workspace --all-targets --all-features --locked
    cargo "+$version" check --package laststream-filter --lib --locked --target wasm32-unknown-unknown
}

build_script() {
    tests/tools/build-script
}

# A change that makes requests dearer must say so. With the tests' profile, for what they compile will do.
cost() {
    cargo bench --bench cost --profile dev --locked -- --check
}

# What operators get. Not one of the steps of a whole run: it takes minutes and finds little else; `.ci/run release` asks for it.
release() {
    prepare_release
    cargo static
    local program=$CARGO_TARGET_DIR/x86_64-unknown-linux-musl/release/laststream root size most=20000000
    size=$(stat --format %s "$program")
    echo "$program: $size bytes"
    if [[ $size -ge $most ]]; then
        echo "that is more than $most bytes" >&2
        return 1
    fi
    # Where nothing else is, it can only run by itself.
    root=$(mktemp -d)
    cp "$program" "$root"
    in_root "$root" /laststream version
    rm -r "$root"
}

fuzz() {
    .ci/fuzz 8
}

# A real mesh: Kubernetes, Istio and, as root, a kubelet. The first run compiles them, which takes minutes.
mesh() {
    counted cargo mesh
}
