# shellcheck shell=bash
# A run of tests that executes none must not look like a good one.

# counted COMMAND...: runs tests, and adds up the results of all their binaries.
counted() {
    local log
    log=$(mktemp)
    "$@" 2>&1 | tee "$log"
    awk '/^test result: / { passed += $4; failed += $6 }
        END { printf "\n%d passed, %d failed\n", passed, failed; exit passed == 0 }' "$log"
    rm "$log"
}
