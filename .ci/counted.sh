# shellcheck shell=bash
# A run of tests that executes none must not look like a good one, and neither must one that leaves tests out.
# shellcheck disable=SC2154 # `work` is the working folder of .ci/run

# Each run's results are added up in the file `results` of the working folder.

# counted COMMAND...: runs tests, and adds up the results of all their binaries. A test that is ignored is a failure here: what it needs
# should be there.
counted() {
    local log status=0 passed failed ignored
    log=$(mktemp)
    "$@" 2>&1 | tee "$log" || status=$?
    read -r passed failed ignored < <(awk '/^test result: / { passed += $4; failed += $6; ignored += $8 } END { print passed + 0, failed + 0, ignored + 0 }' "$log")
    rm "$log"
    echo "$passed $failed $ignored" >>"$work/results"
    printf '\n%d passed, %d failed, %d ignored\n' "$passed" "$failed" "$ignored"
    if [[ $status -ne 0 ]]; then
        return "$status"
    fi
    [[ $passed -gt 0 && $failed -eq 0 && $ignored -eq 0 ]]
}

print_total() {
    awk '{ passed += $1; failed += $2; ignored += $3 } END { printf "\ntest result: ok. %d passed; %d failed; %d ignored\n", passed, failed, ignored }' "$work/results"
}
