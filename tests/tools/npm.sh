# shellcheck shell=bash
# Node's packages, in the user's cache folder. No script of a package runs.

# npm_packages NAME PATH PURPOSE PACKAGE@VERSION...: prints where a file of the packages is.
npm_packages() {
    local folder
    folder=$(cache_folder)/tools/npm-$1
    if [[ ! -e $folder/$2 ]]; then
        once "$folder" install_npm "${@:3}" >&2
    fi
    printf '%s\n' "$folder/$2"
}

# install_npm PURPOSE PACKAGE@VERSION... FOLDER
install_npm() {
    local folder=${!#}
    command -v npm >/dev/null || missing "\`npm\` ($1)" npm
    echo "fetching ${*:2:$#-2} from npm ($1): once"
    npm install --prefix "$folder" --silent --no-fund --no-audit --ignore-scripts "${@:2:$#-2}"
}
