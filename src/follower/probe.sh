# The probe: looks once at what the follower would find on this host, says it, and ends. Any POSIX sh, never stored.
# in : lines on stdin, "log PATH" and "discover", the last one "go"
# out: a line a fact, drawn in probe.js; the first is "V 1 CLOCK", the last is "E"
# It changes nothing, and reads of the logs only the beginning of the newest file.
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
export LC_ALL PATH
set -f
nl='
'
sample_max=8192  # bytes of a log: enough for its first record unless a statement is huge
clusters_max=64  # running clusters that are looked at

say() { printf '%s\n' "$1" || exit 1; }

logs='' discover=''
while IFS= read -r line; do
  case $line in
    log\ *) logs=$logs${line#log }$nl ;;
    discover) discover=1 ;;
    go) break ;;
  esac
done
[ "$line" = go ] || exit 2

# The data directory of the postmaster $1 (a directory of /proc) as its arguments say it: the working directory can
# only be read by its own user.
data_argument() {
  next=''
  tr '\0' '\n' <"$1/cmdline" 2>/dev/null | while IFS= read -r argument; do
    if [ "$next" ]; then
      printf '%s\n' "$argument"
      break
    fi
    case $argument in
      -D) next=1 ;;
      -D/*) printf '%s\n' "${argument#-D}" && break ;;
      --data_directory=/* | --data-directory=/*) printf '%s\n' "${argument#*=}" && break ;;
    esac
  done
}

# Adds the data directories of running clusters to logs.
find_clusters() {
  left=$clusters_max
  set +f
  set -- /proc/[0-9]*
  set -f
  for process; do
    { read -r name <"$process/comm"; } 2>/dev/null || continue
    case $name in postgres | postmaster) ;; *) continue ;; esac
    data=$(readlink "$process/cwd" 2>/dev/null)
    [ "$data" ] && [ -e "$data/PG_VERSION" ] || data=$(data_argument "$process")
    while :; do case $data in /*/) data=${data%/} ;; *) break ;; esac done
    case $data in
      /*[!/]*) ;;
      *) continue ;;
    esac
    # What does not exist here belongs to a container.
    [ -e "$data" ] || hidden "$data" || continue
    case $nl$logs in *"$nl$data$nl"*) continue ;; esac
    [ $left -gt 0 ] || break
    left=$((left - 1)) logs=$logs$data$nl
  done
}

# Whether a directory on the way to $1 cannot be searched; sets barrier to it.
hidden() {
  barrier=$1
  while [ "$barrier" ] && [ "$barrier" != / ]; do
    barrier=${barrier%/*}
    if [ -d "${barrier:-/}" ]; then
      [ ! -x "${barrier:-/}" ]
      return
    fi
  done
  return 1
}

# Says that the permission $1 (read or search) is missing on $2.
denied() {
  say "X $1 $(stat -L -c %a -- "$2" 2>/dev/null) $2"
  say "XO $(stat -L -c %U -- "$2" 2>/dev/null)"
  say "XG $(stat -L -c %G -- "$2" 2>/dev/null)"
}

# The files of the current directory that end in $1, "MTIME SIZE ./NAME", oldest first.
list() {
  find . ! -name . -prune -type f -name "*.$1" ! -name '*[[:cntrl:]]*' -exec stat -c '%Y %s %n' {} + 2>/dev/null |
    sort -k1,1n -k3
}

# Says how many files end in $1, the newest of them if it is csv, and how the newest with a content begins.
count() {
  number=0 bytes=0 locked=0 first_locked='' newest='' sample=''
  IFS=$nl
  for entry in $(list "$1"); do
    rest=${entry#* }
    size=${rest%% *} file=${rest#* }
    number=$((number + 1)) bytes=$((bytes + size)) newest=$entry
    if ! [ -r "$file" ]; then
      locked=$((locked + 1)) first_locked=$file
    elif [ "$size" -gt 0 ]; then
      sample=$file
    fi
  done
  IFS=" 	$nl"
  say "F $1 $number $bytes $locked"
  [ "$1" = csv ] || return 0
  [ -z "$newest" ] || {
    rest=${newest#* }
    say "M ${newest%% *} ${rest%% *} ${rest#*./}"
  }
  [ -z "$first_locked" ] || denied read "$dir/${first_locked#./}"
  [ -z "$sample" ] || begins "$sample"
}

# Says the first bytes of file $1 in hexadecimal, 16 a line.
begins() {
  head -c $sample_max <"$1" 2>/dev/null | od -An -v -tx1 2>/dev/null | while read -r hex; do say "O $hex"; done
}

# Looks at one log.
look() {
  say "L $1"
  dir=''
  if [ -f "$1" ]; then
    say 'K file'
    set -- "$1" $(stat -L -c '%Y %s' -- "$1")
    if [ -r "$1" ]; then
      say "F csv 1 ${3:-0} 0"
      say "M ${2:-0} ${3:-0} ${1##*/}"
      begins "$1"
    else
      say "F csv 1 ${3:-0} 1"
      say "M ${2:-0} ${3:-0} ${1##*/}"
      denied read "$1"
    fi
    return
  elif ! [ -d "$1" ]; then
    if [ -e "$1" ]; then
      say 'K other'
    elif hidden "$1"; then
      say 'K hidden'
      denied search "${barrier:-/}"
    else
      say 'K missing'
    fi
    return
  elif ! [ -x "$1" ]; then
    say 'K directory'
    denied search "$1"
    return
  elif [ -e "$1/PG_VERSION" ] || [ -e "$1/current_logfiles" ]; then
    say 'K data'
    version "$1"
    if [ -r "$1/current_logfiles" ]; then
      while read -r destination file; do
        say "J $destination"
        [ "$dir" ] || dir=${file%/*}
        case $dir in '' | /*) ;; *) dir=$1/$dir ;; esac
      done <"$1/current_logfiles"
    fi
    [ "$dir" ] || for dir in "$1/log" "$1/pg_log"; do [ ! -d "$dir" ] || break; done
  else
    say 'K directory'
    dir=$1
    version "${1%/*}"
  fi
  say "D $dir"
  if [ -d "$dir" ]; then
    if ! [ -x "$dir" ]; then
      denied search "$dir"
    elif ! [ -r "$dir" ]; then
      denied read "$dir"
    elif cd "$dir"; then
      for suffix in csv json log; do count $suffix; done
    fi
  elif hidden "$dir"; then
    denied search "$barrier"
  fi
}

version() {
  if { read -r number <"$1/PG_VERSION"; } 2>/dev/null; then say "P $number"; fi
}

say "V 1 $(date +%s)"
say "U $(uname -srm 2>/dev/null)"
say "N $(id -un 2>/dev/null || id -u 2>/dev/null)"
stat -c %i / >/dev/null 2>&1 || say 'T stat -c'
for tool in dd find sort head cksum sleep date; do
  command -v $tool >/dev/null 2>&1 || say "T $tool"
done
[ -r /proc/self/fdinfo/0 ] || say 'T /proc'
[ -z "$discover" ] || find_clusters
IFS=$nl
for log in $logs; do
  IFS=" 	$nl"
  (look "$log")
done
say E
