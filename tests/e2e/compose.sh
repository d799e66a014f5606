#!/usr/bin/env bash
# Both forms of the service in containers, from the build to the removal; exit code 0 or 1.
# It builds the image, brings each form up, classifies, trains, labels, grows the cluster, kills its scheduler in the
# middle of a job, takes everything down and up again, and compares every job, model, corpus and result byte by byte.
#
# It uses the `docker` on the PATH, with compose, and python3. Settings (environment):
#   WHEELS    folder with a wheel of torch, where PyTorch's own index cannot be reached (default: PIP_FIND_LINKS)
#   KEEP=1    leave the image behind
#   BUILD=0   take the image phonechain:e2e as it is
set -euo pipefail
cd "$(dirname "$0")/../.."
ROOT=$PWD
WORK=$(mktemp -d)
NAME=phonechain-e2e-$$
export IMAGE=phonechain:e2e
export COMPOSE_PROFILES=
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PUBLISH=127.0.0.1:$PORT
BEGAN=$(date +%s.%N)

# A project directory of its own: a .env in the checkout is its owner's.
compose() { docker compose -p "$NAME" -f "$ROOT/docker-compose.yml" --project-directory "$WORK" "$@"; }
drive() { python3 "$ROOT/tests/e2e/drive.py" "http://127.0.0.1:$PORT" "$@"; }
since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }

step() { # TEXT COMMAND...: run it, print the text with its time; its output only where it fails
    local text=$1 began rc
    shift
    began=$(date +%s.%N)
    set +e
    (set -e; "$@") >"$WORK/step.log" 2>&1
    rc=$?
    set -e
    if [ $rc != 0 ]; then
        printf 'FAILED  %7s s  %s\n' "$(since "$began")" "$text"
        tail -n 60 "$WORK/step.log"
        return 1
    fi
    printf 'ok      %7s s  %s\n' "$(since "$began")" "$text"
}

finish() {
    local rc=$?
    trap - EXIT INT TERM
    if [ $rc != 0 ]; then
        echo "--- the containers, as they were:"
        COMPOSE_PROFILES=cluster compose ps -a 2>/dev/null || true
        COMPOSE_PROFILES=cluster compose logs --no-color --tail 30 2>/dev/null || true
    fi
    COMPOSE_PROFILES=cluster compose down -v --remove-orphans --timeout 5 >/dev/null 2>&1 || true
    [ "${KEEP:-0}" = 1 ] || docker image rm "$IMAGE" >/dev/null 2>&1 || true
    rm -rf "$WORK"
    [ $rc = 0 ] && echo "e2e: passed in $(since "$BEGAN") s" || echo "e2e: FAILED after $(since "$BEGAN") s"
    exit $rc
}
trap finish EXIT
trap 'exit 130' INT TERM

build() {
    local wheels=${WHEELS:-${PIP_FIND_LINKS:-}} more=()
    if [ -n "$wheels" ] && ls "$wheels"/torch-*.whl >/dev/null 2>&1; then more=(--build-context "wheels=$wheels"); fi
    docker build -t "$IMAGE" "${more[@]}" --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" .
}

postgres() {
    if docker image inspect postgres:17 || docker pull postgres:17; then return; fi
    tests/e2e/postgres.sh phonechain-postgres:standin
}

hardened() { # the image alone: no root, no compiler, nothing written
    local run=(docker run --rm --network none --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges)
    [ "$("${run[@]}" --entrypoint id "$IMAGE" -u)" = 10001 ]
    [ -z "$("${run[@]}" --entrypoint sh "$IMAGE" -c 'command -v gcc cc make; find /opt/phonechain -user 10001 -print -quit')" ]
    "${run[@]}" "$IMAGE" demo
}

contained() { # how each running container of the project is held
    local id
    for id in $(compose ps -q); do
        docker inspect -f '{{.Name}} {{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{gt .HostConfig.Memory 0}}' "$id" |
            tee /dev/stderr | grep -qE ' (10001:10001|postgres)? ?true \[ALL\] \[no-new-privileges:true\] true$'
        [ "$(docker exec "$id" id -u)" != 0 ]
        ! docker exec "$id" sh -c 'touch /written' 2>/dev/null
        docker exec "$id" sh -c 'grep -q "^CapEff:.0*$" /proc/self/status'
    done
}

up() { compose up -d --no-build --wait --wait-timeout 300 "$@" && drive ready 120; }
ready_at() { # seconds from the start of the service's container until it was healthy
    local id
    id=$(compose ps -q service)
    docker inspect -f '{{.State.StartedAt}} {{range .State.Health.Log}}{{if eq .ExitCode 0}}{{.End.Format "2006-01-02T15:04:05.999999999Z07:00"}} {{end}}{{end}}' "$id" |
        python3 -c 'import sys; from datetime import datetime as d; a, b = sys.stdin.read().split()[:2]; f = lambda t: d.fromisoformat(t[:26].rstrip("Z") + "+00:00"); print(f"{(f(b) - f(a)).total_seconds():.1f}")'
}
save() { drive everything >"$WORK/$1"; }
same() { drive everything >"$WORK/now" && diff "$WORK/$1" "$WORK/now"; }
corpus() { docker run --rm -i --network none --entrypoint python "$IMAGE" - "$1" <tests/e2e/corpus.py >"$WORK/$2.zip"; }
upload() { drive upload "$WORK/$1.zip" >"$WORK/$1.id"; }
train() { drive train "$(cat "$WORK/$1.id")" "$2" "$3" >"$WORK/$4.id"; }
label() { drive label "$(cat "$WORK/$1.id")" "$2" >"$WORK/$3.id"; }
wait_for() { drive wait "$(cat "$WORK/$1.id")" "${2:-300}"; }
ends() { "${@:1:$#-1}" "${@: -1}" && wait_for "${@: -1}"; }
gone() { # nothing of the project is left
    [ -z "$(docker ps -aq --filter "label=com.docker.compose.project=$NAME")" ]
    [ -z "$(docker volume ls -q --filter "label=com.docker.compose.project=$NAME")" ]
}

[ "${BUILD:-1}" = 0 ] || step "build the image" build
echo "        image: $(docker image inspect -f '{{.Size}}' "$IMAGE" | awk '{ printf "%.0f MB", $1 / 1e6 }')"
step "the image alone, read-only, without rights or network, labels the sample" hardened
step "make a corpus of 20 utterances, and one of 200" eval 'corpus 20 small && corpus 200 large'

echo "--- docker compose up: SQLite, workers of its own"
step "up: healthy, then ready" up
echo "        the service was healthy $(ready_at) s after its container started"
step "read-only, unprivileged, limited" contained
step "classify the sample" drive classify samples/LJ001-0002.flac samples/LJ001-0002.TextGrid
step "take in the corpus" upload small
step "train a small model as a job" ends train small tiny 3 plain-train
step "label a batch with it" ends label small tiny plain-label
save plain
step "down" compose down --timeout 60
step "up again" up
step "every job, model, corpus and result is the same" same plain
step "down, with its volumes" compose down -v --timeout 60
step "nothing is left" gone

echo "--- COMPOSE_PROFILES=cluster docker compose up: PostgreSQL, a scheduler, workers"
step "an image of PostgreSQL" postgres
docker image inspect postgres:17 >/dev/null 2>&1 || export POSTGRES_IMAGE=phonechain-postgres:standin
step "the profile as an option is refused, with the reason" \
    eval 'compose --profile cluster run --rm --no-TTY password >"$WORK/out" 2>&1 && exit 1; grep -q "COMPOSE_PROFILES=cluster docker compose up" "$WORK/out"'
export COMPOSE_PROFILES=cluster
step "up: healthy, then ready" up
echo "        the service was healthy $(ready_at) s after its container started"
step "read-only, unprivileged, limited" contained
step "classify the sample" drive classify samples/LJ001-0002.flac samples/LJ001-0002.TextGrid
step "take in both corpora" eval 'upload small && upload large'
step "train a small model as a job" ends train small tiny 3 train
step "label a batch with it" ends label large tiny label
step "three workers" up --scale worker=3 --no-recreate
step "three workers are there" eval '[ "$(compose ps -q worker | wc -l)" = 3 ]'
step "label again, by three" ends label large tiny label3
step "the same rows" eval '[ "$(drive rows "$(cat "$WORK/label.id")")" = "$(drive rows "$(cat "$WORK/label3.id")")" ]'

train large longer 60 longer
label large tiny label-killed
step "a training and a labelling job are running" eval 'drive running "$(cat "$WORK/longer.id")" 60; drive running "$(cat "$WORK/label-killed.id")" 60'
step "kill the scheduler" compose kill -s KILL scheduler
step "both jobs are still to be done" eval 'sleep 3; drive state "$(cat "$WORK/longer.id")" | grep -E "running|queued"; drive state "$(cat "$WORK/label-killed.id")" | grep -E "running|queued|succeeded"'
step "start the scheduler" compose start scheduler
step "the labelling job ends well" wait_for label-killed
step "with the same rows" eval '[ "$(drive rows "$(cat "$WORK/label.id")")" = "$(drive rows "$(cat "$WORK/label-killed.id")")" ]'
step "the training job ends well" wait_for longer 600
save cluster
step "restart everything" compose restart --timeout 60
step "ready" drive ready 300
step "every job, model, corpus and result is the same" same cluster
step "down" compose down --timeout 60
step "up again" up
step "every job, model, corpus and result is the same" same cluster
step "the trained model labels" ends label small longer label-longer
step "down, with its volumes" compose down -v --timeout 60
step "nothing is left" gone
