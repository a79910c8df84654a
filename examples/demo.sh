#!/usr/bin/env bash
# Runs a demo on this machine that needs only Rust and Go: a real Kubernetes API server, the simulated cloud, the operator with
# the permissions of deploy/, and a tour. Start it with `make demo`.
# On a terminal everything keeps running after the tour, until Ctrl-C. Elsewhere the demo ends after the tour, with a non-zero
# status if a check failed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly namespace=demo
readonly system=cloud-server-system
work=''
jobs_started=() # each a process group of its own, in the order of their start

say() { printf '\n== %s\n' "$*"; }
die() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

# Ends all started programs, newest first, on every exit path.
clean_up() {
    local status=$? i pid
    if ((status != 0 && status < 128)) && [[ -s $work/operator.log ]]; then
        printf '\ndemo: failed; the last lines of the operator'\''s log:\n' >&2
        tail -n 20 "$work/operator.log" >&2
    fi
    trap - EXIT
    trap '' INT TERM HUP
    for ((i = ${#jobs_started[@]} - 1; i >= 0; i--)); do
        pid=${jobs_started[i]}
        kill -TERM -- "-$pid" 2>/dev/null || continue
        # Wait for an orderly end, then kill.
        for _ in {1..150}; do
            kill -0 -- "-$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL -- "-$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    if [[ -n $work ]]; then rm -rf -- "$work"; fi
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# start NAME COMMAND...: runs in the background, output to $work/NAME.out and $work/NAME.log.
start() {
    local name=$1
    shift
    set -m # a group of its own, so that Ctrl-C reaches only this script, which then ends things in order
    "$@" </dev/null >"$work/$name.out" 2>"$work/$name.log" &
    set +m
    jobs_started+=("$!")
}

# long COMMAND...: runs a command and waits for it, but handles a signal at once.
long() {
    local pid status=0
    set -m
    "$@" </dev/null &
    set +m
    pid=$!
    jobs_started+=("$pid")
    wait "$pid" || status=$?
    unset 'jobs_started[-1]'
    return "$status"
}

# await NAME SECONDS COMMAND...: waits until the command succeeds, while the last started program, called NAME, runs.
await() {
    local name=$1 tries=$(($2 * 10)) pid=${jobs_started[-1]}
    shift 2
    until "$@"; do
        if ! kill -0 "$pid" 2>/dev/null || ((--tries <= 0)); then
            tail -n 20 "$work/$name.log" >&2
            die "$name did not get ready"
        fi
        sleep 0.1
    done
}

# show COMMAND...: prints the command as users can type it, and then its output.
show() {
    local word line=''
    for word; do
        if [[ $word =~ [^a-zA-Z0-9_./:=,@%+-] ]]; then word=${word@Q}; fi
        line+=" $word"
    done
    printf '\n$%s\n' "$line"
    "$@"
}

# fetch URL [JSON]: gets or posts, as curl does. On machines without curl, bash does it.
fetch() {
    local url=$1 json=${2-}
    if command -v curl >/dev/null; then
        if [[ -z $json ]]; then curl -fsS "$url"; else curl -fsS -H 'Content-Type: application/json' -d "$json" "$url"; fi
        return
    fi
    local host=${url#http://} method=GET answer
    host=${host%%/*}
    if [[ -n $json ]]; then method=POST; fi
    exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
    printf '%s %s HTTP/1.0\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' \
        "$method" "${url#http://"$host"}" "$host" "${#json}" "$json" >&3
    answer=$(cat <&3)
    exec 3>&-
    [[ $answer == HTTP/1.[01]\ 200* ]] || return 1
    printf '%s' "${answer#*$'\r\n\r\n'}"
}

expect() { # expect NAME ACTUAL EXPECTED
    [[ $2 == "$3" ]] || die "$1: $2, but should be $3"
}

ids_at_the_service() { fetch "$control/servers?live=true" | grep -o '"id":"[^"]*"' | cut -d'"' -f4 | sort || true; }
ids_in_status() { kubectl get instances.cloudserver.dev -o jsonpath='{range .items[*]}{.status.id}{"\n"}{end}' | sort; }

need() { # need PROGRAM REMEDY
    command -v "$1" >/dev/null || die "$1 is missing: $2"
}
need cargo 'install Rust (rustup)'
need cc 'install a C compiler and linker, such as gcc'
if [[ -z ${KUBEBUILDER_ASSETS-} ]]; then need go 'install Go 1.26 or newer; it builds the API server'; fi

say 'Building the operator, the simulated cloud and the control plane: the first build takes about ten minutes on two cores'
work=$(mktemp -d "${TMPDIR:-/tmp}/cloud-server-demo.XXXXXX")
# The demo does not wait for the garbage collector or for the deletion of a namespace.
long tools/programs --without-controllers >"$work/path"
PATH=$(<"$work/path"):$PATH

say 'Starting a control plane on loopback (it has no nodes, so no Pod runs)'
start devcluster devcluster --without-controllers --kubeconfig "$work/admin.kubeconfig"
await devcluster 120 grep -qs '^Ready' "$work/devcluster.out"
export KUBECONFIG=$work/admin.kubeconfig

say 'Starting the cloud simulator'
start simulator cloud-simulator --listen 127.0.0.1:0 --control 127.0.0.1:0 --token example-token --reinstall-needs-stop
await simulator 30 grep -qs 'endpoint' "$work/simulator.out"
sleep 0.1
endpoint=$(awk '$1 == "endpoint" {print $2}' "$work/simulator.out")
control=$(awk '$1 == "control" {print $2}' "$work/simulator.out")
echo "service $endpoint; to watch it, open $control in a browser"

say 'Installing the operator: definitions, permissions, Deployment'
show kubectl apply -k deploy
show kubectl apply -k deploy/secret-writer # for the logins that the operator makes
show kubectl wait --for=condition=Established crd/accounts.cloudserver.dev crd/instances.cloudserver.dev --timeout=30s

say 'Starting the operator as a local process with its own ServiceAccount, since no node runs the Deployment'
kubectl create token cloud-server-operator -n $system --duration=24h >"$work/token"
cp "$KUBECONFIG" "$work/operator.kubeconfig"
(
    export KUBECONFIG=$work/operator.kubeconfig
    kubectl config unset users
    kubectl config set users.operator.tokenFile "$work/token"
    kubectl config set-context --current --user=operator
) >/dev/null
KUBECONFIG=$work/operator.kubeconfig start operator cloud-server-operator run --listen 127.0.0.1:0 \
    --leader-elect-resource-namespace $system --keep-tokens-namespace $system --allowed-endpoint "$endpoint"
await operator 60 grep -qs 'serving /livez' "$work/operator.log"
health=http://$(grep -o '"address":"[^"]*"' "$work/operator.log" | head -n 1 | cut -d'"' -f4)
# shellcheck disable=SC2317 # called by name
ready() { fetch "$health/readyz" >/dev/null 2>&1; }
await operator 30 ready
echo "operator ready, metrics on $health/metrics"

say 'Applying examples/, with the address of this simulator'
kubectl create namespace $namespace >/dev/null
kubectl config set-context --current --namespace=$namespace >/dev/null
printf '\n$ %s\n' "kubectl kustomize examples | sed 's|http://127.0.0.1:8090|$endpoint|' | kubectl apply -f -"
kubectl kustomize examples | sed "s|http://127.0.0.1:8090|$endpoint|" | kubectl apply -f -
show kubectl get instances -o wide
show kubectl wait --for=condition=Ready instances.cloudserver.dev --all --timeout=60s
show kubectl get accounts,instances -o wide

say 'The state of one server'
show kubectl cloudserver describe web-1
show kubectl events --for instance/web-1

say 'All servers of the account, as the service lists them: one for each Instance'
show kubectl cloudserver instances
expect 'servers at the service' "$(ids_at_the_service)" "$(ids_in_status)"

say 'The promise: the answer to the next create is lost, and still nothing is bought twice'
fault='{"path":"/instance/create","times":1,"act":{"act":"lose","when":"after-effect"}}'
printf '\n$ %s\n' "curl $control/faults -H 'Content-Type: application/json' -d '$fault'"
fetch "$control/faults" "$fault" >/dev/null
printf '\n$ %s\n' "sed 's/db-1/db-2/' examples/instance-key.yaml | kubectl apply -f -"
sed 's/db-1/db-2/' examples/instance-key.yaml | kubectl apply -f -
show kubectl wait --for=condition=Ready instance/db-2 --timeout=60s
show kubectl events --for instance/db-2
show kubectl cloudserver instances
expect 'servers at the service' "$(ids_at_the_service)" "$(ids_in_status)"

# becomes JSONPATH=VALUE: waits until the Instance web-1 has this value and is Ready again.
becomes() {
    show kubectl wait "--for=jsonpath=$1" instance/web-1 --timeout=60s
    show kubectl wait --for=condition=Ready instance/web-1 --timeout=60s
}

say 'Changing a server: power, password, operating system'
show kubectl patch instances.cloudserver.dev web-1 --type=merge -p '{"spec":{"powerState":"Stopped"}}'
becomes '{.status.detail.ecsStatus}=STOPPED'
show kubectl patch instances.cloudserver.dev web-1 --type=merge -p '{"spec":{"powerState":"Running"}}'
becomes '{.status.detail.ecsStatus}=STARTED'
show kubectl patch secret web-1-login --type=merge -p '{"stringData":{"password":"Another5horse!"}}'
becomes '{.status.history[0].verb}=ModifyPassword'
show kubectl patch instances.cloudserver.dev web-1 --type=merge -p '{"spec":{"image":{"id":"img-debian12aaaa"}}}'
becomes '{.status.detail.imageResourceUUID}=img-debian12aaaa'
show kubectl get instance web-1 -o 'jsonpath={range .status.history[*]}{.verb} {.succeeded}{"\n"}{end}'
expect 'servers at the service' "$(ids_at_the_service)" "$(ids_in_status)"

say 'Deleting: the object stays until its server is confirmed released'
show kubectl delete instances.cloudserver.dev web-1 --timeout=60s
show kubectl cloudserver instances
expect 'servers at the service' "$(ids_at_the_service)" "$(ids_in_status)"
expect 'Instances left' "$(kubectl get instances.cloudserver.dev -o custom-columns=NAME:.metadata.name --no-headers | tr '\n' ' ')" 'api-1 db-1 db-2 web-2 web-3 '

if [[ -t 0 && -t 1 ]]; then
    say 'All checks passed. Everything keeps running until Ctrl-C. In another terminal:'
    cat <<EOF

export KUBECONFIG=$KUBECONFIG
export PATH=$(<"$work/path"):\$PATH
kubectl get instances --watch
kubectl cloudserver instances

service          $endpoint   (token example-token)
its page         $control
operator's log   $work/operator.log
metrics          $health/metrics
EOF
    trap 'printf "\n"; exit 0' INT
    wait -n || true
    die 'a program ended unexpectedly'
fi

say 'Deleting the rest; the server of db-2 is released now, and its object stays for the settling time, since its create may have been carried out twice'
show kubectl delete instances.cloudserver.dev --all --wait=false
# shellcheck disable=SC2317 # called by name
none_live() { [[ -z $(ids_at_the_service) ]]; }
await operator 60 none_live
show kubectl cloudserver instances
say 'All checks passed.'
