#!/usr/bin/env bash
# Loads what packaging/monitoring ships into Prometheus: the rules as they are, over hours that promtool plays; and a
# Prometheus that scrapes a real daemon, which evaluates each rule and answers each question of the dashboard.
# The programs are those of Debian's package `prometheus`; without them this is skipped. Grafana is in no Debian.
#   scripts/test-monitoring.sh [FOBS]
set -euo pipefail
cd "$(dirname "$0")/.."
for need in promtool prometheus curl python3; do
    command -v "$need" >/dev/null || { echo "SKIPPED: $need is missing (Debian: prometheus, curl, python3)"; exit 0; }
done
fobs=${1:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/fobs}
[ -n "${1:-}" ] || "${CARGO:-cargo}" build --locked -p fobs-cli
fobs=$(realpath "$fobs")
rules=$PWD/packaging/monitoring/fobs-alerts.yml
board=$PWD/packaging/monitoring/fobs-dashboard.json

work=$(mktemp -d)
children=()
finish() {
    for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $1" >&2 && exit 1; }

promtool check rules "$rules"
# Each alert fires when it has to, and none while all is well: hours in an instant.
cat >"$work/played.yml" <<RULES
rule_files: [$rules]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'up{job="fobs", instance="good"}', values: '1x3000'}
      - {series: 'fobs_disk_free_bytes{job="fobs", instance="good"}', values: '500x3000'}
      - {series: 'fobs_disk_size_bytes{job="fobs", instance="good"}', values: '1000x3000'}
      - {series: 'fobs_sessions_running{job="fobs", instance="good"}', values: '3x3000'}
      - {series: 'fobs_sessions_waiting{job="fobs", instance="good"}', values: '0x3000'}
      - {series: 'fobs_sessions_max{job="fobs", instance="good"}', values: '64x3000'}
      - {series: 'fobs_key_sessions_total{job="fobs", instance="good", key="ann", direction="push", outcome="ok"}', values: '1+1x3000'}
      - {series: 'fobs_key_last_success_timestamp_seconds{job="fobs", instance="good", key="ann", direction="push"}', values: '0+60x3000'}
      - {series: 'fobs_key_last_success_timestamp_seconds{job="fobs", instance="good", key="reader", direction="pull"}', values: '0x3000'}
      - {series: 'fobs_refused_total{job="fobs", instance="good", reason="timeout"}', values: '0+1x3000'}
      - {series: 'process_open_fds{job="fobs", instance="good"}', values: '20x3000'}
      - {series: 'process_max_fds{job="fobs", instance="good"}', values: '1024x3000'}
      - {series: 'up{job="fobs", instance="bad"}', values: '0x3000'}
      - {series: 'fobs_disk_free_bytes{job="fobs", instance="bad"}', values: '40x3000'}
      - {series: 'fobs_disk_size_bytes{job="fobs", instance="bad"}', values: '1000x3000'}
      - {series: 'fobs_sessions_running{job="fobs", instance="bad"}', values: '4x3000'}
      - {series: 'fobs_sessions_waiting{job="fobs", instance="bad"}', values: '2x3000'}
      - {series: 'fobs_sessions_max{job="fobs", instance="bad"}', values: '4x3000'}
      - {series: 'fobs_key_sessions_total{job="fobs", instance="bad", key="ann", direction="push", outcome="connect"}', values: '1+1x3000'}
      # The daemon started again after an hour: what it knew of the last success is gone.
      - {series: 'fobs_key_last_success_timestamp_seconds{job="fobs", instance="bad", key="ann", direction="push"}', values: '0x60 stale'}
      - {series: 'fobs_refused_total{job="fobs", instance="bad", reason="timeout"}', values: '0+600x3000'}
      - {series: 'process_open_fds{job="fobs", instance="bad"}', values: '1000x3000'}
      - {series: 'process_max_fds{job="fobs", instance="bad"}', values: '1024x3000'}
    promql_expr_test:
      - expr: count by (instance) (ALERTS{alertstate="firing"})
        eval_time: 30h
        exp_samples: [{labels: '{instance="bad"}', value: 7}]
      - expr: count(ALERTS{alertstate="firing"})
        eval_time: 1m
        exp_samples: []
RULES
promtool test rules "$work/played.yml"

# A daemon with one good copy and one that its key may not make.
port=$((20000 + $$ % 10000))
metrics=$((port + 1)) web=$((port + 2))
export HOME=$work FOBS_SYSTEM_CONFIG=/dev/null
unset XDG_CONFIG_HOME XDG_STATE_HOME
mkdir "$work/served"
"$fobs" keygen --comment ann 2>/dev/null | sed 's/^/write-only,rate=1Gbit,sessions=2 /' >"$work/keys"
"$fobs" serve --listen "127.0.0.1:$port" --root "$work/served" --authorized-keys "$work/keys" --metrics "$metrics" \
    2>"$work/log" &
children+=($!)
head -c 3000000 /dev/urandom >"$work/file"
for _ in $(seq 50); do "$fobs" cp -q "$work/file" "fobs://127.0.0.1:$port/" 2>"$work/said" && break || sleep 0.2; done
[ -f "$work/served/file" ] || fail "no copy: $(cat "$work/said" "$work/log")"
"$fobs" cp -q "fobs://127.0.0.1:$port/file" "$work/back" 2>/dev/null && fail "a key that may only write has read"
# What is wrong with the text itself. It knows no OpenMetrics, where the help of a counter has no _total.
curl -sf "http://127.0.0.1:$metrics/metrics" >"$work/metrics"
promtool check metrics <"$work/metrics" 2>"$work/lint" || true
if grep -v -e '_total no help text' -e 'use base unit "bytes" instead of "bits"' "$work/lint"; then fail "promtool check metrics"; fi

cat >"$work/prometheus.yml" <<YAML
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$rules]
scrape_configs: [{job_name: fobs, static_configs: [{targets: ["127.0.0.1:$metrics"]}]}]
YAML
promtool check config "$work/prometheus.yml"
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --log.level=warn \
    --web.listen-address="127.0.0.1:$web" >"$work/prometheus.log" 2>&1 &
children+=($!)
python3 - "$web" "$board" <<'PYTHON' || fail "$(cat "$work/prometheus.log")"
import json, sys, time, urllib.parse, urllib.request

web, board = sys.argv[1:]


def ask(path, **words):
    url = f"http://127.0.0.1:{web}/api/v1/{path}?{urllib.parse.urlencode(words)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def until(what, found):
    for _ in range(150):
        try:
            if found():
                return
        except OSError:  # It starts.
            pass
        time.sleep(0.2)
    sys.exit(f"not seen: {what}")


def rules():
    return [rule for group in ask("rules")["groups"] for rule in group["rules"]]


until("the daemon", lambda: [it["value"][1] for it in ask("query", query='up{job="fobs"}')["result"]] == ["1"])
until("each rule evaluated", lambda: rules() and all(rule["health"] == "ok" for rule in rules()))
firing = [rule["name"] for rule in rules() if rule["state"] == "firing"]
if firing:
    sys.exit(f"alerts of a daemon that is well: {firing}")
shown = json.load(open(board))
# What Grafana puts in for its variables.
values = {"$instance": ".*", "$__rate_interval": "1m"}
expressions = [target["expr"] for panel in shown["panels"] for target in panel["targets"]]
# Nothing was deleted or refused by that daemon.
may_be_empty = ("fobs_deleted_total", "fobs_refused_total")
for expression in expressions:
    for name, value in values.items():
        expression = expression.replace(name, value)
    if any(name in expression for name in may_be_empty):
        ask("query", query=expression)
    else:
        until(expression, lambda: ask("query", query=expression)["result"])
variables = [it["query"]["query"] for it in shown["templating"]["list"] if it["type"] == "query"]
for query in variables:
    name = query.removeprefix("label_values(").split(",")[0]
    until(query, lambda: ask("query", query=name)["result"])
print(f"ok: {len(rules())} rules and {len(expressions)} questions of the dashboard, answered by Prometheus")
PYTHON
