# shellcheck shell=bash
# Programs of Debian's packages, unpacked into the user's cache folder and not installed: that needs no root, and starts no service.

# debian PACKAGE PATH PURPOSE: prints where a file of the package is, the installed one if there is one.
debian() {
    local folder
    if [[ -x /$2 ]]; then
        printf '/%s\n' "$2"
        return
    fi
    folder=$(cache_folder)/tools/$1
    if [[ ! -x $folder/$2 ]]; then
        unpack "$1" "$folder" "$2" "$3" >&2
    fi
    printf '%s\n' "$folder/$2"
}

# unpack PACKAGE FOLDER PATH PURPOSE: the folder appears under its name only when it is complete.
unpack() (
    mkdir -p "${2%/*}"
    unfinished=$(mktemp -d "$2.XXXXXX")
    trap 'rm -rf "$unfinished"' EXIT
    download "$unfinished" "$1" || missing "\`$1\` ($4)" "$1"
    dpkg-deb --extract "$unfinished"/*.deb "$unfinished"
    rm "$unfinished"/*.deb
    chmod 755 "$unfinished"
    if [[ ! -x $unfinished/$3 ]]; then
        echo "Debian's package $1 has no $3" >&2
        exit 1
    fi
    # Somebody else may have been quicker.
    if ! mv --no-target-directory "$unfinished" "$2" 2>/dev/null && [[ ! -x $2/$3 ]]; then
        echo "$2 is there, and has no $3: remove it" >&2
        exit 1
    fi
)

# Only root can renew the lists of packages, where there are none yet.
download() (
    cd "$1"
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        exit 1
    fi
    apt-get download --quiet --quiet "$2" 2>/dev/null && exit 0
    if [[ $EUID -eq 0 ]]; then
        apt-get update --quiet --quiet
    fi
    apt-get download --quiet --quiet "$2"
)
