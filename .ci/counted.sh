# shellcheck shell=bash
# A run that executes no test must not pass, and neither must one that leaves tests out.
# shellcheck disable=SC2154 # `work` is the working folder of .ci/run, and `step` the step that runs

# The file `results` of the working folder has a line with the results of each run, and `failed-STEP` what the failed tests of a step said.

# counted COMMAND...: runs tests, and adds up the results of all their binaries. An ignored test is a failure here, because the machine
# should have the programs that it needs.
counted() {
    local log status=0 passed failed ignored
    log=$(mktemp)
    "$@" 2>&1 | tee "$log" || status=$?
    read -r passed failed ignored < <(awk 'sub(/.*test result: [A-Za-z]+\. /, "") { passed += $1; failed += $3; ignored += $5 } END { print passed + 0, failed + 0, ignored + 0 }' "$log")
    if [[ $failed -gt 0 ]]; then
        awk '/^failures:$/ { is_on = 1 } /^test result: FAILED/ { is_on = 0 } is_on' "$log" >>"$work/failed-$step"
    fi
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
