#!/usr/bin/env bash
# Security scan: the source with bandit, the pinned dependencies with pip-audit. Exit code 0 only where both ran and are clean.
# Called by the Makefile. AUDIT_ARGS goes to pip-audit, for example `-s osv` for another advisory service.
set -uo pipefail
cd "$(dirname "$0")/.."
rc=0
echo "audit: the source (bandit; [tool.bandit] in pyproject.toml, and the reason beside each '# nosec')"
.venv/bin/bandit -q -c pyproject.toml -r app model features && echo "audit: the source is clean" || rc=1
echo "audit: the pinned dependencies (pip-audit)"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# --strict: a package that the advisory service does not know is a failure, not a pass.
if .venv/bin/pip-audit --strict --disable-pip --no-deps --progress-spinner off ${AUDIT_ARGS:-} -r constraints.txt >"$log" 2>&1; then
    echo "audit: no known vulnerability in constraints.txt"
else
    rc=1
    grep -v '^WARNING' "$log" | tail -n 40
    if grep -qE 'could not be audited|ConnectionError|Max retries|ServiceError|timed out' "$log"; then
        echo "audit: the dependencies were NOT checked: the advisory service does not answer, or does not know these packages."
        echo "       Run this where the package index's advisories can be reached, or set AUDIT_ARGS='-s osv'."
    fi
fi
exit $rc
