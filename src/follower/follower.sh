# The follower: runs on the monitored host under any POSIX sh (dash, bash, busybox ash), is never stored there.
# in : lines on stdin (see index.js), the last one "go"
# out: frames on stdout (drawn in src/codec/frames.js); every byte of a log is preceded by its file and offset
# It never sends a byte of a known file before the sums of its head and of the bytes before the offset have matched,
# it reads through descriptor 3, which survives rename and unlink, and it ends when nobody reads its output.
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
export LC_ALL PATH
set -f
nl='
'
frame_max=8388608   # bytes a frame: a heartbeat can follow within a second on any usable line
sum_max=512         # bytes of head and tail that identify a file
beat_max=4          # seconds between heartbeats, so that two are never 5 s apart
gone_max=1000
full_scan_every=600 # seconds; in between only files modified in the last 2 minutes are looked at

say() { printf '%s\n' "$1" || exit 1; }
fail() {
  say "X $1 $2"
  exit 3
}

path='' suffix='' from=none known='' gone_inodes=''
while IFS= read -r line; do
  case $line in
    path\ *) path=${line#path } ;;
    suffix\ *) suffix=${line#suffix } ;;
    from\ *) from=${line#from } ;;
    known\ *) known=$known${line#known }$nl ;;
    gone\ *) gone_inodes="$gone_inodes ${line#gone } " ;;
    go) break ;;
  esac
done
[ "$line" = go ] || exit 2

say "V 1 $(date +%s)"
stat -c %i / >/dev/null 2>&1 || fail tool 'stat -c is not there (GNU coreutils or busybox needed)'
for tool in dd find sort head cksum sleep; do
  command -v $tool >/dev/null 2>&1 || fail tool "$tool is not there"
done
[ -r /proc/self/fdinfo/0 ] || fail tool '/proc is not there'
sleep 0.01 2>/dev/null && busy_wait=0.3 quiet_wait=0.5 || busy_wait=1 quiet_wait=1

# Where the log files are: sets dir, and name when one file is followed.
resolve() {
  name=''
  if [ -f "$path" ]; then
    dir=${path%/*} name=${path##*/}
    [ "$dir" ] || dir=/
  elif [ -e "$path/PG_VERSION" ] || [ -e "$path/current_logfiles" ]; then
    dir=''
    if [ -r "$path/current_logfiles" ] && read -r line <"$path/current_logfiles"; then
      # "csvlog log/name.csv": all destinations are in the one log_directory
      dir=${line#* } dir=${dir%/*}
      case $dir in /*) ;; *) dir=$path/$dir ;; esac
    fi
    [ "$dir" ] || for dir in "$path/log" "$path/pg_log"; do [ ! -d "$dir" ] || break; done
  else
    dir=$path
  fi
}

# The candidates, a line each: INODE S MTIME SIZE NAME. $1: all, or recent.
list() {
  if [ "$name" ]; then
    stat -L -c '%i S %Y %s ./%n' -- "$name" 2>/dev/null
  elif [ "$1" = all ]; then
    find . ! -name . -prune -type f -name "*$suffix" ! -name '*[[:cntrl:]]*' -exec stat -c '%i S %Y %s %n' {} + 2>/dev/null
  else
    find . ! -name . -prune -type f -name "*$suffix" ! -name '*[[:cntrl:]]*' -mmin -2 -exec stat -c '%i S %Y %s %n' {} + 2>/dev/null
  fi
}

# Compares the candidates with what is known (lines INODE K OFFSET HEADLEN HEADSUM TAILLEN TAILSUM NAME): sets todo to
# the first file with unread bytes, oldest first ("MTIME INODE SIZE NAME"), behind to all unread bytes outside the
# open file. A known file under another name is opened even if its size is right: the inode may serve another file.
# One sort brings both lines of an inode together, so a directory of thousands of files stays linear.
scan() {
  todo='' behind=0 known_inode='' kept='' unreadable=''
  IFS=$nl
  for entry in $({ printf %s "$known"; list "$1"; } | sort); do
    inode=${entry%% *} entry=${entry#* }
    case $entry in
      K\ *)
        [ -z "$known_inode" ] || gone "$1"
        known_inode=$inode known_entry=$entry
        ;;
      S\ *)
        entry=${entry#S }
        mtime=${entry%% *} entry=${entry#* }
        size=${entry%% *} file=${entry#* }
        read_to=0 known_name=$file
        if [ "$known_inode" = "$inode" ]; then
          read_to=${known_entry#K } read_to=${read_to%% *}
          known_name=${known_entry#K * * * * * }
          kept=$kept$inode\ $known_entry$nl known_inode=''
        fi
        if [ "$inode" = "$open_inode" ] || { [ "$size" -eq "$read_to" ] && [ "$file" = "$known_name" ] && ! is_gone; }; then
          continue
        elif ! [ -r "$file" ]; then
          unreadable=${file#./}
        else
          todo=$todo$mtime\ $inode\ $size\ $file$nl
          [ "$size" -lt "$read_to" ] && read_to=0
          behind=$((behind + size - read_to))
        fi
        ;;
    esac
  done
  [ -z "$known_inode" ] || gone "$1"
  known=$kept
  case $todo in
    *"$nl"?*) todo=$(printf %s "$todo" | sort -k1,1n -k4) ;;
  esac
  todo=${todo%%"$nl"*}
  IFS=" 	$nl"
  if [ "$unreadable" ] && [ "$unreadable" != "$told" ]; then say "W unreadable $dir/$unreadable"; fi
  told=$unreadable
}

# Whether inode was said to be gone: if it is listed again it is opened, so that its F frame says that it is back.
is_gone() {
  case $gone_inodes in
    *" $inode "*) return 0 ;;
  esac
  return 1
}

# A known file was not listed: after a full scan it is no longer there. It stays known, for it may come back (a volume
# that was not mounted, a file that was moved away for a while).
gone() {
  kept=$kept$known_inode\ $known_entry$nl
  if [ "$1" = all ] && [ "$known_inode" != "$open_inode" ]; then
    case $gone_inodes in
      *" $known_inode "*) ;;
      *)
        say "G $known_inode"
        gone_inodes="$gone_inodes $known_inode " gone_count=$((gone_count + 1))
        ;;
    esac
  fi
  known_inode=''
}

# The sum of $2 bytes from offset $1 of the open file, as POSIX cksum prints it, without its length. The path under
# /proc opens the file anew, so the offset of descriptor 3 does not move.
sum() {
  if [ "$1" -eq 0 ]; then
    set -- $(head -c "$2" /proc/self/fd/3 | cksum)
  else
    set -- $(dd if=/proc/self/fd/3 bs=1 skip="$1" count="$2" 2>/dev/null | cksum)
  fi
  echo "$1"
}

# Sets entry to the K line of the open file at offset off.
describe() {
  headlen=$off
  [ "$headlen" -le $sum_max ] || headlen=$sum_max
  entry="$open_inode K $off $headlen $(sum 0 "$headlen") $headlen $(sum $((off - headlen)) "$headlen") $file"
}

# Removes the line of inode $1 from known, sets entry to it.
forget() {
  entry='' kept=''
  IFS=$nl
  for line in $known; do
    case $line in
      "$1 K "*) entry=$line ;;
      *) kept=$kept$line$nl ;;
    esac
  done
  known=$kept
  IFS=" 	$nl"
}

leave() {
  file=$open_name
  describe
  known=$known$entry$nl
  exec 3<&-
  open_inode=''
}

# Opens the file of line $1 ("MTIME INODE SIZE NAME") and says where it is read from.
open() {
  file=${1#* * * } inode=${1#* }
  inode=${inode%% *}
  command exec 3<"$file" || return 1
  set -- $(stat -L -c '%i %s %d' /proc/self/fd/3)
  [ "$1" = "$inode" ] || {
    exec 3<&-
    return 1
  }
  size=$2 device=$3 off=0 state=new
  forget "$inode"
  if [ "$entry" ]; then
    set -- ${entry#* K }
    # $1 offset, $2 $3 head, $4 $5 tail
    if [ "$size" -ge "$2" ] && [ "$(sum 0 "$2")" = "$3" ]; then
      if [ "$size" -lt "$1" ]; then
        # It lost its end but not its head (a crash of the host): what is left was read already.
        off=$size state=shrunk
      elif [ "$(sum $(($1 - $4)) "$4")" = "$5" ]; then
        off=$1 state=known
      fi
    fi
  fi
  open_inode=$inode open_name=$file
  case $gone_inodes in
    *" $inode "*) gone_inodes="${gone_inodes%%" $inode "*} ${gone_inodes#*" $inode "}" ;;
  esac
  if [ "$off" -gt 0 ]; then
    dd bs=65536 skip=$((off / 65536)) count=0 <&3 >/dev/null 2>&1
    [ $((off % 65536)) -eq 0 ] || dd bs=$((off % 65536)) count=1 <&3 >/dev/null 2>&1
    check_position
  fi
  say "F $inode $device $off $state ${file#./}"
}

# Ends without a word when descriptor 3 is not where the frames said: the file shrank under a read.
check_position() {
  read -r line position </proc/self/fdinfo/3
  [ "$position" = "$off" ] || exit 1
}

# Sends the open file up to offset $1.
send() {
  while [ "$off" -lt "$1" ]; do
    n=$(($1 - off))
    [ $n -le $frame_max ] || n=$frame_max
    say "D $off $n"
    [ $n -lt 65536 ] || dd bs=65536 count=$((n / 65536)) <&3 2>/dev/null || exit 1
    [ $((n % 65536)) -eq 0 ] || dd bs=$((n % 65536)) count=1 <&3 2>/dev/null || exit 1
    off=$((off + n)) sent=1
    check_position
  done
}

# What was there before the stream began is skipped, as from says.
baseline() {
  IFS=$nl
  set -- $(list all | sort -k3,3n -k5)
  IFS=" 	$nl"
  while [ $# -gt 0 ]; do
    if [ "$from" = current ] && [ $# -eq 1 ]; then break; fi
    entry=$1
    inode=${entry%% *} entry=${entry#* S }
    entry=${entry#* } size=${entry%% *} file=${entry#* }
    shift
    [ -r "$file" ] && [ "$size" -gt 0 ] || continue
    command exec 3<"$file" || continue
    off=$size open_inode=$inode
    describe
    exec 3<&-
    open_inode=''
    known=$known$entry$nl
    say "S ${entry%% *} ${entry#* K }"
  done
  say B
}

open_inode='' open_name='' gone_count=0 off=0 size=0 waiting=0 told='' ticks=0 since_beat=0 since_full=0 quiet=0 dir_mtime='' scanned_at=0 last_clock=0
resolve
until [ -d "$dir" ] && [ -x "$dir" ] && [ -r "$dir" ] && cd "$dir"; do
  if [ -d "$dir" ]; then
    [ $waiting -ne 0 ] || say "W unreadable $dir"
  else
    [ $waiting -ne 0 ] || say "W missing $dir"
    # What comes into it later was never there before: the stream begins with all of it.
    [ "$from" = none ] || say B
    from=none
  fi
  waiting=1
  sleep 2
  say "H $(date +%s) 0 0 0"
  resolve
done
dir_inode=$(stat -L -c %i .)
case $from in
  end | current) baseline ;;
  start) say B ;;
esac
scan_kind=all due=1

while :; do
  sent=0
  if [ "$open_inode" ]; then
    set -- $(stat -L -c '%s %i %Y' /proc/self/fd/3 "$dir")
    size=$1 inode=$5 mtime=$6
    if [ "$size" -lt "$off" ]; then
      # Truncated under us: forgotten, and found again as a new file.
      forget "$open_inode"
      exec 3<&-
      open_inode='' due=1
    else
      send "$size"
    fi
  else
    set -- $(stat -L -c '%i %Y' "$dir")
    inode=$1 mtime=$2
  fi
  [ "$inode" = "$dir_inode" ] || fail moved "$dir was replaced"
  # A directory's time has whole seconds here: within the second of the last scan it proves nothing.
  if [ "$mtime" != "$dir_mtime" ] || [ "$mtime" -ge $((scanned_at - 1)) ]; then due=1; fi

  if [ $due -ne 0 ] || [ $since_beat -ge $beat_max ]; then
    clock=$(date +%s)
    # After a leap of the clock, or a long stop, modification times say nothing: look at everything.
    if [ "$clock" -lt "$last_clock" ] || [ "$clock" -gt $((last_clock + 60)) ] || [ $since_full -ge $full_scan_every ]; then
      scan_kind=all since_full=0
    fi
    dir_mtime=$mtime last_clock=$clock scanned_at=$clock due=0
    scan $scan_kind
    scan_kind=recent
    if [ "$todo" ]; then
      if [ "$open_inode" ]; then
        # The next file was there before this look: nothing is written to the old one after what is sent now, or,
        # if something is, the file comes round again.
        set -- $(stat -L -c %s /proc/self/fd/3)
        [ "$1" -lt "$off" ] || send "$1"
        leave
      fi
      open "$todo" && {
        due=1
        continue
      }
    fi
    if [ $since_beat -ge $beat_max ]; then
      say "H $clock $off $size $behind"
      since_beat=0
      resolved=$dir
      resolve
      # A fresh follower gets only those that may still come back.
      [ $gone_count -lt $gone_max ] || fail renew "$gone_count files are gone"
      [ "$dir" = "$resolved" ] || fail moved "the logs moved from $resolved to $dir"
    fi
  fi

  # A look costs one process: look less often while the log is quiet.
  if [ $sent -ne 0 ]; then
    quiet=0 wait=$busy_wait seconds=0
    ticks=$((ticks + 1))
    [ $((ticks % 3)) -ne 0 ] || seconds=1
  elif [ $quiet -lt 20 ]; then
    quiet=$((quiet + 1)) wait=$quiet_wait seconds=$((quiet % 2))
  elif [ $quiet -lt 80 ]; then
    quiet=$((quiet + 1)) wait=1 seconds=1
  else
    wait=2 seconds=2
  fi
  since_beat=$((since_beat + seconds)) since_full=$((since_full + seconds))
  sleep $wait
done
