#!/usr/bin/env bash
# Runs everything in full, one after the other, whatever fails, and says at the end what did.
# Every part prints how to repeat a failure.
#
#   tools/nightly.sh 30s    30 seconds for each fuzz target, 60 times that for stress
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/lib.sh

time=${1:?usage: tools/nightly.sh TIME}
secs=$(seconds "$time")
make=${MAKE:-make}
failed=()
part() {
	printf '\n==> nightly: %s\n' "$*"
	"$@" || failed+=("$*")
}
part tools/stress.sh "$((60 * secs))s"
part tools/fuzz.sh "${secs}s"
part seeded "queries beside SQLite" env KSTONE_EFFORT=nightly "$make" sql-check
part seeded "real file systems" "$make" powercut
part "$make" canary
part "$make" cross
echo
if [ ${#failed[@]} -gt 0 ]; then
	echo "nightly: FAILED:"
	printf '  %s\n' "${failed[@]}"
	exit 1
fi
echo "nightly: all passed"
