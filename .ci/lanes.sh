# shellcheck shell=bash
# Runs steps one after the other, and two rows of steps side by side. A row is a separate process group, so that ending it also ends its
# compilers and proxies.
# shellcheck disable=SC2154 # `work` is the working folder of .ci/run

groups=()

# run_steps STEP...: runs steps one after the other, and prints their times.
run_steps() {
    local began
    for step; do
        began=$SECONDS
        printf '\n== %s\n' "$step"
        "$step"
        printf -- '-- %s: %d s, %d s in all\n' "$step" $((SECONDS - began)) "$SECONDS"
    done
}

# row COMMAND...: starts a row in the background.
row() {
    in_group reporting "$@"
}

reporting() {
    trap 'report_failure $?' EXIT
    "$@"
}

# row_behind STEP...: starts a row in a separate session: the kernel shares processors between sessions and containers first, and only
# then by the priorities of processes.
row_behind() {
    env --default-signal=INT,QUIT setsid bash .ci/run --behind "$work" "$@" </dev/null &
    groups+=($!)
}

# run_behind STEP...: runs steps with the processor time that others leave. The output of a step is printed as a whole when the step ends.
run_behind() {
    { echo 19 >/proc/self/autogroup; } 2>/dev/null || : # not every kernel groups by session
    renice --priority 19 --pid "$BASHPID" >/dev/null
    local output
    output=$(mktemp --tmpdir="$work")
    exec 3>&1
    for step; do
        printf -- '-- beside: %s\n' "$step" >&3
        (
            trap 'cat "$output" >&3' EXIT
            trap 'trap - EXIT; exit 143' TERM # the output of a step that is ended would bury the reason
            exec >"$output" 2>&1
            run_steps "$step"
        )
    done
}

# await_rows: waits for the end of all rows; a failure of one does not end the others, because they may fail, too.
await_rows() {
    local group status=0
    for group in "${groups[@]}"; do
        wait "$group" || status=$?
    done
    groups=()
    return "$status"
}

# in_group COMMAND...: starts a command in the background, in a separate process group and without input.
in_group() {
    set -m
    "$@" </dev/null &
    groups+=($!)
    set +m
}

# end_group GROUP: ends a whole group, by SIGKILL after ten seconds.
end_group() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        kill -- "-$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL -- "-$1" 2>/dev/null || :
    wait "$1" || :
}

end_groups() {
    local group
    for group in "${groups[@]}"; do
        end_group "$group"
    done
    groups=()
}

# report_failure STATUS: prints the step that failed, if any, with what its failed tests said, and keeps it for the end.
report_failure() {
    if [[ $1 -ne 0 ]]; then
        {
            cat "$work/failed-$step" 2>/dev/null || :
            printf '\nFAILED in the step %s (exit status %d)\n' "$step" "$1"
        } | tee -a "$work/failures"
    fi
}

# On a machine without a cache, Istio and Kubernetes take minutes to compile. This begins early, with the processor time that the first
# steps leave; the step `mesh` compiles the rest.
begin_mesh_parts() {
    in_group nice -n 19 tests/tools/program containerd kube-apiserver pilot-discovery envoy-gateway kwok crds monitoring-crds >/dev/null 2>&1
}

# end_mesh_parts: its group is the first.
end_mesh_parts() {
    end_group "${groups[0]}"
    groups=("${groups[@]:1}")
}
