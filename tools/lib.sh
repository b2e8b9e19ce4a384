# Functions of the scripts that run tests with random seeds.

# seconds TIME prints a time like 90, 90s, 5m or 2h in seconds.
seconds() {
	case $1 in
	*h) echo $((${1%h} * 3600)) ;;
	*m) echo $((${1%m} * 60)) ;;
	*) echo $((${1%s})) ;;
	esac
}

# new_seed prints KSTONE_SEED, or without it a seed that nobody has chosen.
new_seed() {
	echo "${KSTONE_SEED:-$(od -An -N8 -tu8 /dev/urandom | tr -d ' ')}"
}

# seeded NAME COMMAND... runs a command quietly with a seed. If it fails, what it printed is
# shown and kept, with the command that repeats it.
seeded() {
	local name=$1 seed log
	shift
	seed=$(new_seed)
	mkdir -p build
	log=build/$(tr -cs 'A-Za-z0-9\n' - <<<"$name")-$seed.log
	echo "  $name, KSTONE_SEED=$seed"
	if env KSTONE_SEED="$seed" "$@" >"$log" 2>&1; then
		rm "$log"
		return 0
	fi
	cat "$log"
	echo "FAILED: $name; the output is in $log. All of it once more:"
	printf '  KSTONE_SEED=%s' "$seed"
	printf ' %q' "$@"
	echo
	return 1
}
