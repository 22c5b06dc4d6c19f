# What the scripts share; sourced, never run. Sets root, meson, ninja and jobs.
# A version manager may put a wrapper named meson or ninja first in PATH that does not work, so
# each tool is tried, not looked for.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc 2>/dev/null || echo 2)

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

# The first of the named commands that answers --version with at least major version $1.
first_working() {
	local least=$1 tool version
	shift
	for tool in "$@"; do
		version=$("$tool" --version 2>/dev/null | head -n 1) || continue
		case $version in
		[0-9]*.*) [ "${version%%.*}" -ge "$least" ] && { command -v "$tool"; return 0; } ;;
		esac
	done
	return 1
}

find_tools() {
	meson=$(first_working 1 meson /usr/bin/meson) || meson=
	ninja=$(first_working 1 ninja /usr/bin/ninja) || ninja=
	export NINJA=$ninja
}
