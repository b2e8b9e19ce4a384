#!/usr/bin/env bash
# Compiles the tests of a package of this module such that they run over the storage of a back end.
#
#   tools/store-tests.sh BACKEND PACKAGE OUTPUT [FLAG...]
#
# A package has a variable otherStorage in its tests. A file that sets it is laid over the package,
# and a workspace has the back end beside this module: neither is in the tree, as this module must
# not know the back end's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
backend=$1 package=$2 output=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/go.work" <<END
go $(awk '/^go /{print $2}' go.mod)

use $PWD
use $PWD/engine/store/$backend
END
slow=
if [ "$package" = engine/sql ]; then
	slow="func init() { slowStorage = ${backend}test.Slow }"
fi
cat >"$work/file.go" <<END
package $(basename "$package")_test

import (
	"os"
	"testing"

	"$(awk '/^module /{print $2}' go.mod)/engine/store/$backend/${backend}test"
)

func init() { otherStorage = ${backend}test.Storage }

$slow

func TestMain(m *testing.M) { os.Exit(${backend}test.Main(m)) }
END
echo "{\"Replace\":{\"$PWD/$package/other_storage_test.go\":\"$work/file.go\"}}" >"$work/overlay.json"
GOWORK="$work/go.work" "${GO:-go}" test -c -vet=off \
	-overlay "$work/overlay.json" -o "$output" "$@" "./$package"
