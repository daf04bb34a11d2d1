# shellcheck shell=bash
# A run that executes no test must not pass, and neither must one that leaves tests out.
# shellcheck disable=SC2154 # `work` is the working folder of .ci/run, and `step` the step that runs

# The file `results` of the working folder has a line with the results of each run, and `failed-STEP` what the failed tests of a step said.

# counted COMMAND...: runs tests, and adds up the results of all their binaries. An ignored test is a failure here, because the machine
# should have the programs that it needs.
counted() {
    local log status=0 passed failed ignored
    log=$(mktemp)
    begin_watch
    "$@" 2>&1 | tee "$log" || status=$?
    end_watch
    read -r passed failed ignored < <(totals "$log")
    if [[ $failed -gt 0 ]]; then
        awk '/^failures:$/ { is_on = 1 } /^test result: FAILED/ { is_on = 0 } is_on' "$log" >>"$work/failed-$step"
        if stood_still && run_again "$log" "$failed" "$@"; then
            passed=$((passed + failed)) failed=0 status=0
        fi
    fi
    rm "$log"
    echo "$passed $failed $ignored" >>"$work/results"
    printf '\n%d passed, %d failed, %d ignored\n' "$passed" "$failed" "$ignored"
    if [[ $status -ne 0 ]]; then
        return "$status"
    fi
    [[ $passed -gt 0 && $failed -eq 0 && $ignored -eq 0 ]]
}

# totals LOG: the tests that passed, failed and were ignored.
totals() {
    awk 'sub(/.*test result: [A-Za-z]+\. /, "") { passed += $1; failed += $3; ignored += $5 } END { print passed + 0, failed + 0, ignored + 0 }' "$1"
}

print_total() {
    awk '{ passed += $1; failed += $2; ignored += $3 } END { printf "\ntest result: ok. %d passed; %d failed; %d ignored\n", passed, failed, ignored }' "$work/results"
}

# A shared machine may stand still for seconds, or minutes. A test of times then fails for a reason that is not in the code. So a process
# that does nothing but sleep measures the longest time for which it was not woken, in microseconds. Only where that is a second or more,
# tests that failed run again, each alone; the first failure stays in the output.
begin_watch() {
    echo 0 >"$work/longest_gap-$step"
    watch_machine >/dev/null 2>&1 &
    watcher=$!
}

watch_machine() {
    local began gap longest=0
    while kill -0 "$$"; do
        began=${EPOCHREALTIME/[.,]/}
        sleep 0.2
        gap=$((${EPOCHREALTIME/[.,]/} - began - 200000))
        if ((gap > longest)); then
            longest=$gap
            echo "$longest" >"$work/longest_gap-$step"
        fi
    done
}

end_watch() {
    kill "$watcher"
    wait "$watcher" 2>/dev/null || :
}

stood_still() {
    local longest
    longest=$(<"$work/longest_gap-$step")
    printf '\nThe machine stood still for %d ms at most.\n' $((longest / 1000))
    ((longest >= 1000000))
}

# run_again LOG COUNT COMMAND...: runs each of a few failed tests again, alone.
run_again() {
    local log=$1 count=$2 name names again
    shift 2
    mapfile -t names < <(awk '/^failures:$/ { is_on = 1 } /^test result:/ { is_on = 0 } is_on && /^    [A-Za-z0-9_:.]+$/ { print $1 }' "$log" | sort --unique)
    [[ ${#names[@]} -eq $count && $count -le 5 ]] || return
    for name in "${names[@]}"; do
        again=$(mktemp --tmpdir="$work")
        printf '\nOnce more, alone: %s\n' "$name"
        only "$name" "$@" 2>&1 | tee "$again" || return
        [[ $(totals "$again") == "1 0 0" ]] || return
        rm "$again"
    done
}

# only NAME COMMAND...: runs a single test of those that a command runs. The last word of the command may be a command itself.
only() {
    local last="${*: -1}" options="--exact $1" command=() word
    if [[ $last == *" "* ]]; then
        [[ $last == *" -- "* ]] || options="-- $options"
        "${@:2:$#-2}" "$last $options"
        return
    fi
    for word in "${@:2}"; do
        [[ $word != -- ]] || break # a runner takes one name
        command+=("$word")
    done
    "${command[@]}" -- --exact "$1"
}
