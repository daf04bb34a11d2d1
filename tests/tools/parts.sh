# shellcheck shell=bash
# The parts of a real mesh that are compiled here: each folder of tests/mesh/parts is a Go module that pins them, with a script that builds them.

# part NAME FILE: prints the path of a file of the part. Compiles the part first, unless that was done with the same versions.
part() {
    local folder
    folder=$(part_folder "$1")
    if [[ ! -d $folder ]]; then
        compile_part "$1" "$folder" >&2
    fi
    printf '%s\n' "$folder/$2"
}

# The folder's name has a hash of the sources: another version, flag or compiler is another folder.
part_folder() {
    local key
    need_go
    key=$(cd "tests/mesh/parts/$1" && { go env GOVERSION && cat go.mod go.sum build; } | sha256sum)
    printf '%s/tools/%s-%s\n' "$(cache_folder)" "$1" "${key::16}"
}

# Go uses the user's own caches. A second run waits instead of compiling, too.
compile_part() (
    name=$1 folder=$2
    mkdir -p "${folder%/*}"
    exec 9>"$folder.lock"
    flock 9
    if [[ -d $folder ]]; then
        exit 0
    fi
    echo "compiling $name into $folder: takes up to ten minutes, once"
    rm -rf "$folder".?????? # left by runs that were killed; with the lock no other run compiles it now
    unfinished=$(mktemp -d "$folder.XXXXXX")
    trap 'rm -rf "$unfinished"' EXIT
    if ! CGO_ENABLED=0 GOFLAGS=-buildvcs=false nice "tests/mesh/parts/$name/build" "$unfinished"; then
        echo "cannot compile $name: see the messages above"
        exit 1
    fi
    chmod 755 "$unfinished"
    mv "$unfinished" "$folder"
)
