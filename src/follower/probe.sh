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
entries_max=100  # of a journal, for the same
clusters_max=64  # running clusters that are looked at

say() { printf '%s\n' "$1" || exit 1; }

# allowed.sh

# settings.sh

logs='' seen='' discover=''
while IFS= read -r line; do
  case $line in
    log\ *) logs=$logs${line#log }$nl ;;
    discover) discover=1 ;;
    go) break ;;
  esac
done
[ "$line" = go ] || exit 2
if [ "$discover" ] && [ "${pgsluice_allowed+set}" ]; then
  refuse 'authorized_keys allows no search for clusters: name the logs with --log'
fi
IFS=$nl
for log in $logs; do allow "$log"; done
IFS=" 	$nl"

# The data directory of the postmaster $1 (a directory of /proc) as its arguments say it: the working directory can
# only be read by its own user.
data_argument() {
  next=''
  # In this order: the shell itself says that a process has ended meanwhile.
  tr '\0' '\n' 2>/dev/null <"$1/cmdline" | while IFS= read -r argument; do
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

# Adds the data directories of running clusters to logs, or the file that a cluster without a collector writes to.
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
    case $nl$logs$seen in *"$nl$data$nl"*) continue ;; esac
    [ $left -gt 0 ] || break
    left=$((left - 1)) seen=$seen$data$nl
    find_own_log
    case $nl$logs in *"$nl$data$nl"*) ;; *) logs=$logs$data$nl ;; esac
  done
}

# Sets data to the file that the cluster in the data directory data writes to, if it has no collector. Where its stderr
# goes is told to its owner; Debian's place for it is known to everybody.
find_own_log() {
  [ ! -e "$data/current_logfiles" ] || return 0
  own_log=$(readlink "$process/fd/2" 2>/dev/null)
  [ "$own_log" ] || case $data in
    /var/lib/postgresql/*/*/*) ;;
    /var/lib/postgresql/*/*)
      own_log=${data#/var/lib/postgresql/}
      own_log=/var/log/postgresql/postgresql-${own_log%/*}-${own_log#*/}.log
      ;;
  esac
  case $own_log in
    /*) [ ! -f "$own_log" ] || data=$own_log ;;
  esac
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

# The kind of log that the name of file $1 says.
kind_of() {
  case $1 in
    *.csv | *.csv[.-]*) kind=csv ;;
    *.json | *.json[.-]*) kind=json ;;
    *) kind=log ;;
  esac
}

# The files of the current directory that are of kind $1, "MTIME SIZE ./NAME", oldest first; compressed ones are not
# counted.
list() {
  find . ! -name . -prune -type f ! -name '.*' ! -name '*.[gxl]z*' ! -name '*.bz2' ! -name '*.zst' ! -name '*.zip' \
    ! -name '*[[:cntrl:]]*' -exec stat -c '%Y %s %n' {} + 2>/dev/null |
    sort -k1,1n -k3 | while IFS= read -r entry; do
    kind_of "${entry#* * }"
    [ $kind != "$1" ] || printf '%s\n' "$entry"
  done
}

# Says how many files of kind $1 are there, the newest of them, and how the newest with a content begins.
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
  [ -z "$newest" ] || {
    rest=${newest#* }
    say "M ${newest%% *} ${rest%% *} ${rest#*./}"
  }
  [ -z "$first_locked" ] || denied read "$dir/${first_locked#./}"
  [ -z "$sample" ] || begins "$sample"
}

# Says the first bytes of file $1.
begins() { hex <"$1" 2>/dev/null; }

# The first bytes of stdin in hexadecimal, 16 a line.
hex() {
  head -c $sample_max 2>/dev/null | od -An -v -tx1 2>/dev/null | while read -r bytes16; do say "O $bytes16"; done
}

# Looks at the journal of the unit $1: who may see it, and the beginning of what the unit wrote last.
look_at_journal() {
  say 'K journal'
  unit=$1
  case $unit in *.service | *.scope | *.socket | *.mount | *.swap) ;; *) unit=$unit.service ;; esac
  command -v journalctl >/dev/null 2>&1 || {
    say 'Y tool '
    return
  }
  set -- -q --no-pager -o cat -n $entries_max "_SYSTEMD_UNIT=$unit" _TRANSPORT=stdout
  sample=$(journalctl "$@" 2>/dev/null | hex)
  if [ "$sample" ]; then
    say 'Y readable '
    say 'F log 0 0 0'
    printf '%s\n' "$sample"
    return
  fi
  # Without -q it tells who may see what.
  said=$(journalctl --no-pager -n 0 2>&1 | head -c 1000 | tr '\000-\037\177' ' ')
  case $said in
    *'not seeing messages'* | *'insufficient permissions'* | *'ermission denied'*) say 'Y denied ' ;;
    *'No journal files were found'*) say 'Y missing ' ;;
    *) if journalctl -q --no-pager -n 0 >/dev/null 2>&1; then say 'Y empty '; else say "Y failed $said"; fi ;;
  esac
}

# Looks at one log.
look() {
  say "L $1"
  dir=''
  case $1 in
    journal:*)
      look_at_journal "${1#journal:}"
      return
      ;;
  esac
  if [ -f "$1" ]; then
    say 'K file'
    set -- "$1" $(stat -L -c '%Y %s' -- "$1")
    kind_of "${1##*/}"
    say_settings "$1"
    if [ -r "$1" ]; then
      say "F $kind 1 ${3:-0} 0"
      say "M ${2:-0} ${3:-0} ${1##*/}"
      begins "$1"
    else
      say "F $kind 1 ${3:-0} 1"
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
        case $destination in stderr | csvlog | jsonlog) say "J $destination" ;; *) continue ;; esac
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
  say_settings "$1"
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
  [ -f "$1/PG_VERSION" ] && { read -r number <"$1/PG_VERSION"; } 2>/dev/null || return 0
  case $number in
    '' | *[!0-9.]* | ?????????*) ;;
    *) say "N $number" ;;
  esac
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
