# shellcheck shell=bash
# Runs steps one after the other, and two rows of steps side by side. A row is a process group of its own, so that ending it also ends its
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

# row COMMAND...: starts a row in the background. It reports its own failure.
row() {
    step=
    in_group reporting "$@"
}

reporting() {
    trap 'report_failure $?' EXIT
    "$@"
}

# run_behind STEP...: runs steps at the lowest priority. The output of a step is printed as a whole when the step ends.
run_behind() {
    renice --priority 19 --pid "$BASHPID" >/dev/null
    exec 3>&1
    for step; do
        printf -- '-- beside: %s\n' "$step" >&3
        (
            trap 'cat "$work/behind" >&3' EXIT
            exec >"$work/behind" 2>&1
            run_steps "$step"
        )
    done
}

# in_group COMMAND...: starts a command in the background, in a process group of its own.
in_group() {
    set -m
    "$@" &
    groups+=($!)
    set +m
}

# The first row that fails ends both.
await_both_rows() {
    wait -n
    wait -n
    groups=()
}

end_groups() {
    local group
    for group in "${groups[@]}"; do
        kill -- "-$group" 2>/dev/null || true
    done
    wait "${groups[@]}" 2>/dev/null || true
    groups=()
}

# report_failure STATUS: prints the step that failed, if any.
report_failure() {
    if [[ $1 -ne 0 && -n $step ]]; then
        printf '\nFAILED in the step %s (exit status %d)\n' "$step" "$1"
    fi
}

# On a machine without a cache, Istio and Kubernetes take minutes to compile. This begins early, with the processor time that the first
# steps leave; the step `mesh` compiles the rest.
begin_mesh_parts() {
    in_group nice -n 19 tests/tools/program containerd kube-apiserver pilot-discovery envoy-gateway kwok crds monitoring-crds >/dev/null 2>&1
}
