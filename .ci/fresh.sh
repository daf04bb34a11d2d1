# shellcheck shell=bash
# The README's commands as a first visitor runs them: a fresh clone, an empty cargo home, an empty cache folder, and none of the programs that
# tests need besides Rust, Python and a C compiler.
# shellcheck disable=SC2154 # `work` is the working folder of .ci/run

# Whatever a step of these checks installs, or a machine of a developer has.
hidden=(docker-registry etcd go kubectl node npm shellcheck skopeo valgrind vgdb)

fresh() (
    place=$work/fresh
    mkdir "$place"
    git clone --quiet . "$place/laststream"
    hide_programs "$place/path"
    commands=$(readme_commands)
    [[ $(wc -l <<<"$commands") -eq 2 ]] || { echo "README.md should have two commands after its marker, not: $commands" >&2; return 1; }
    while read -r -u 7 command; do
        printf '\n$ %s\n' "$command"
        counted_where_tests as_a_stranger "$place" "$command"
    done 7<<<"$commands"
    # A second run needs no network. The trials on an Envoy (`…::1.40.0`) fetch hardly anything and take long; those of PyPI are ignored.
    local again='cargo test --test envoy -- --skip ::1. --skip envoy_from_pypi::'
    printf '\n$ %s, without a network\n' "$again"
    counted as_a_stranger "$place" "unshare --map-root-user --net sh -c 'ip link set lo up && $again'"
)

# in_clone COMMAND...: runs a command in the clone of `fresh`, which has compiled most of it already; or here, if that step has not run or
# the clone lacks changes that are here. The caches are the user's.
in_clone() (
    clone=$work/fresh/laststream
    if [[ -d $clone && -z $(git status --porcelain) && $(git rev-parse HEAD) == "$(git -C "$clone" rev-parse HEAD)" ]]; then
        cd "$clone" || exit
        unset_all '^(CARGO|RUST(C|DOC|FLAGS|UP_TOOLCHAIN))'
        export CARGO_HOME=$work/fresh/cargo
    fi
    "$@"
)

# unset_all PATTERN: unsets all exported variables with such names.
unset_all() {
    local name
    while read -r name; do
        unset "$name"
    done < <(compgen -e | grep -E "$1")
}

# The block of code after the marker, without comments.
readme_commands() {
    awk '/^<!-- run on a fresh machine -->/ { wanted = 1; next }
        wanted && /^```/ { if (inside) exit; inside = 1; next }
        inside { sub(/ *#.*/, ""); print }' README.md
}

# counted_where_tests RUNNER PLACE COMMAND
counted_where_tests() {
    case $3 in
        'cargo test'*) counted "$@" ;;
        *) "$@" ;;
    esac
}

# as_a_stranger PLACE COMMAND
as_a_stranger() (
    cd "$1/laststream" || exit
    rustup=${RUSTUP_HOME:-$HOME/.rustup}
    unset_all '^(CARGO|RUST|LASTSTREAM)'
    # Tests send these signals; a shell in the background, or `nohup`, has the commands that it starts ignore them.
    env --default-signal=INT,QUIT,HUP RUSTUP_HOME="$rustup" CARGO_HOME="$1/cargo" LASTSTREAM_CACHE="$1/cache" PATH="$1/path" bash -c "$2"
)

# hide_programs FOLDER: links to all programs but the hidden ones, to be used as PATH.
hide_programs() {
    local folder program name
    mkdir "$1"
    for name in "${hidden[@]}"; do
        : >"$1/$name"
    done
    IFS=: read -r -a folders <<<"$PATH"
    for folder in "${folders[@]}"; do
        for program in "$folder"/*; do
            name=${program##*/}
            if [[ -x $program && ! -e $1/$name ]]; then
                ln -s "$program" "$1/$name"
            fi
        done
    done
    for name in "${hidden[@]}"; do
        rm "$1/$name"
    done
}
