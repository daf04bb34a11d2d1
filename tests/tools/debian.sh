# shellcheck shell=bash
# Programs of Debian's packages, unpacked into the user's cache folder without installation: that needs no root, changes nothing in the
# system, and starts no service.

# debian PACKAGE PATH PURPOSE: prints the path of a file of the package; that of the installed program if it is on the search path.
debian() {
    command -v "${2##*/}" || unpacked "$@"
}

# unpacked PACKAGE PATH PURPOSE: the same, but always unpacks the package.
unpacked() {
    local folder
    folder=$(cache_folder)/tools/$1
    if [[ ! -x $folder/$2 ]]; then
        once "$folder" unpack "$1" "$2" "$3" >&2
    fi
    printf '%s\n' "$folder/$2"
}

# debian_whole PACKAGE PATH PURPOSE: the same for a program that needs other packages. Missing packages are unpacked beside it, and the
# printed path is that of a script that runs the program with them.
debian_whole() {
    local name=${2##*/} folder
    if command -v "$name"; then
        return
    fi
    folder=$(cache_folder)/tools/$1-whole
    if [[ ! -x $folder/run/$name ]]; then
        once "$folder" unpack_whole "$1" "$2" "$3" >&2
    fi
    printf '%s\n' "$folder/run/$name"
}

# debian_root: prints the folder of a Debian that holds no more than a shell, `curl` and `tar`.
debian_root() {
    local folder
    folder=$(cache_folder)/tools/debian-root
    sources=$PWD/tests/tools/debian-13 once "$folder" unpack_root >&2
    printf '%s\n' "$folder"
}

unpack_root() {
    local purpose='an empty machine, for the release'
    echo "fetching Debian's base ($purpose): once"
    fetch_packages "$1" install --download-only --no-install-recommends --yes base-files bash coreutils curl gzip tar ||
        missing "a Debian ($purpose)" base-files
    unpack_fetched "$1" usr/bin/curl
    echo 127.0.0.1 localhost >"$1/etc/hosts" # as Debian's installer does
}

# once FOLDER COMMAND...: runs a command with an unfinished folder, which gets its name only if the command succeeds. A second run at the
# same time waits, and then finds the folder.
once() (
    folder=$1
    shift
    mkdir -p "${folder%/*}"
    exec 9>"$folder.lock"
    flock 9
    if [[ -d $folder ]]; then
        exit 0
    fi
    rm -rf "$folder".?????? # left by runs that were killed
    unfinished=$(mktemp -d "$folder.XXXXXX")
    trap 'rm -rf "$unfinished"' EXIT
    "$@" "$unfinished"
    chmod 755 "$unfinished"
    mv "$unfinished" "$folder"
)

# unpack PACKAGE PATH PURPOSE FOLDER: fetches and unpacks a package.
unpack() {
    echo "fetching Debian's $1 ($3): once"
    fetch_packages "$4" download "$1" || missing "\`$1\` ($3)" "$1"
    unpack_fetched "$4" "$2"
}

# unpack_whole PACKAGE PATH PURPOSE FOLDER: fetches and unpacks a package and its missing dependencies.
unpack_whole() {
    local program
    echo "fetching Debian's $1 and what it needs ($3): once"
    fetch_packages "$4" install --download-only --reinstall --no-install-recommends --yes "$1" || missing "\`$1\` ($3)" "$1"
    unpack_fetched "$4" "$2"
    mkdir "$4/run"
    for program in "$4"/usr/bin/* "$4/$2"; do
        write_runner "$4" "${program#"$4/"}"
    done
}

# write_runner FOLDER PATH: writes a script that starts the program with the libraries of the folder, even after the folder has moved.
write_runner() {
    local script=$1/run/${2##*/} libraries
    libraries=$(cd "$1" && find . -name '*.so*' -printf '%h\n' | sort --unique | sed 's|^\.|$root|' | paste --serial --delimiters :)
    cat >"$script" <<END
#!/bin/sh
root=\${0%/run/*}
export LD_LIBRARY_PATH="$libraries" VALGRIND_LIB="\$root/usr/libexec/valgrind" FONTCONFIG_FILE="\$root/run/fonts.conf"
exec "\$root/$2" "\$@"
END
    chmod 755 "$script"
    echo '<fontconfig><dir>/usr/share/fonts</dir><dir prefix="relative">../usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>' \
        >"$1/run/fonts.conf"
}

# unpack_fetched FOLDER PATH: unpacks the fetched packages; they must contain the path.
unpack_fetched() {
    local package
    for package in "$1"/*.deb; do
        dpkg-deb --extract "$package" "$1"
        rm "$package"
    done
    if [[ ! -x $1/$2 ]]; then
        echo "there is no $2 in Debian's packages"
        return 1
    fi
}

# fetch_packages FOLDER ARGUMENT...: runs apt-get with lists and a download folder of our own, which needs no root. Lists are fetched if
# there are none, and again if they no longer match the mirror.
fetch_packages() (
    set +e
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        exit 1
    fi
    folder=$1
    shift
    state=$(cache_folder)/apt${sources:+-${sources##*/}}
    mkdir -p "$state/lists/partial" "$folder/partial"
    exec 8>"$state.lock"
    flock 8
    options=(-o "Dir::State=$state" -o Dir::State::status=/var/lib/dpkg/status -o "Dir::Cache=$state" -o "Dir::Cache::archives=$folder"
        -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
    if [[ -n ${sources:-} ]]; then # packages of another Debian release, in which nothing is installed
        : >"$state/status"
        options+=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$sources" -o "Dir::State::status=$state/status")
    fi
    cd "$folder" || exit 1
    apt-get "${options[@]}" --quiet --quiet "$@" 2>/dev/null || {
        apt-get "${options[@]}" --quiet --quiet update && apt-get "${options[@]}" --quiet --quiet "$@"
    }
    status=$?
    rm -rf "$folder/partial" "$folder/lock"
    exit "$status"
)
