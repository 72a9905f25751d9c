# Part of every program: what the forced command of an authorized_keys line (authorized-keys.js) lets it read. It sets
# pgsluice_allowed, a path or journal:UNIT a line, before the program begins; without it all is allowed.

refuse() {
  printf 'pgsluice denies: %s\n' "$1" >&2
  exit 77
}

allow() {
  [ "${pgsluice_allowed+set}" ] || return 0
  case $nl$pgsluice_allowed$nl in
    *"$nl$1$nl"*) ;;
    *) refuse "authorized_keys does not allow $1" ;;
  esac
}
