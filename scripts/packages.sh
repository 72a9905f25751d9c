#!/bin/sh
# scripts/packages.sh list|missing|install run|test
# Lists or installs the system packages of scripts/packages.txt; "test" includes "run". Installing needs root and apt;
# without them the missing packages are named and the exit code is 1.
set -eu
here=$(dirname "$0")
action=${1:?list, missing or install} role=${2:?run or test}

there() {
  case $1 in
    /*) for file in $1; do [ -e "$file" ] && return 0; done; return 1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

can_install=''
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then can_install=1; fi

names='' wishes=''
while read -r of package proof; do
  case $of in '' | '#'*) continue ;; esac
  [ "$of" = run ] || [ "$role" = test ] || continue
  if [ "$action" != list ] && there "$proof"; then continue; fi
  if [ "$of" = wish ]; then wishes="$wishes $package"; else names="$names $package"; fi
done <"$here/packages.txt"
names=${names# } wishes=${wishes# }

apt_install() { apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >&2; }

# shellcheck disable=SC2086 -- lists of words
case $action in
  list | missing) printf '%s\n' "$names${names:+${wishes:+ }}$wishes" ;;
  install)
    if [ -z "$can_install" ]; then
      [ -n "$names" ] || exit 0
      echo "missing system packages: $names (as root: apt-get install $names)" >&2
      exit 1
    fi
    [ -n "$names$wishes" ] || exit 0
    echo "installing system packages: $names $wishes" >&2
    # The tests start their own clusters: Debian's "main" is not wanted.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
      mkdir -p /etc/postgresql-common
      echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    [ -z "$names" ] || apt_install $names
    # One that is not in this distribution must not keep the others away.
    [ -z "$wishes" ] || apt_install $wishes || for wish in $wishes; do
      apt_install "$wish" || echo "it is not there to be installed: $wish" >&2
    done
    ;;
  *)
    echo "usage: scripts/packages.sh list|missing|install run|test" >&2
    exit 2
    ;;
esac
