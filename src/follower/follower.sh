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
blank=" 	$nl"
frame_max=8388608   # bytes a frame: a heartbeat can follow within a second on any usable line
tentative_max=65536 # bytes that the other side holds until they are said to hold
sum_max=512         # bytes of head and tail that identify a file
no_sum=4294967295   # cksum of nothing
beat_max=4          # seconds between heartbeats, so that two are never 5 s apart
gone_max=1000
ripe_after=5        # seconds
full_scan_every=600 # seconds; in between only files modified in the last 2 minutes are looked at
pops_max=50         # files that are read between two listings
unsure_max=5        # listings between two heartbeats because files had other names than listed
finished_after=10   # seconds: a copy that is older is complete
passed_after=60     # seconds: as long before the newest log a file was written to last that is no longer written to
passes_max=20       # in one scan

say() { printf '%s\n' "$1" || exit 1; }
fail() {
  say "X $1 $2"
  exit 3
}

# allowed.sh

# settings.sh

# Ends the program unless all of its arguments are numbers: they are computed with, and a shell that has arrays would run
# what stands in brackets there.
numbers() {
  for number; do
    case $number in '' | *[!0-9]*) exit 2 ;; esac
  done
}

path='' format=auto from=none known='' gone_inodes='' done_before=''
while IFS= read -r line; do
  case $line in
    path\ *) path=${line#path } ;;
    format\ *) format=${line#format } ;;
    from\ *) from=${line#from } ;;
    known\ *)
      set -- $line
      [ $# -ge 9 ] || exit 2
      numbers "$2" "$4" "$5" "$6" "$7" "$8"
      case $line in
        *\ ./*/*) exit 2 ;;
        "known $2 K $4 $5 $6 $7 $8 ./"*) known=$known${line#known }$nl ;;
        *) exit 2 ;;
      esac
      ;;
    gone\ *)
      numbers "${line#gone }"
      gone_inodes="$gone_inodes ${line#gone } "
      ;;
    done\ *)
      line=${line#done }
      numbers "${line%%/*}" "${line#*/}"
      done_before="$done_before $line "
      ;;
    go) break ;;
  esac
done
[ "$line" = go ] || exit 2
allow "$path"

say "V 1 $(date +%s)"
stat -c %i / >/dev/null 2>&1 || fail tool 'stat -c is not there (GNU coreutils or busybox needed)'
for tool in dd find sort head tail wc cksum od tr sleep; do
  command -v $tool >/dev/null 2>&1 || fail tool "$tool is not there"
done
[ -r /proc/self/fdinfo/0 ] || fail tool '/proc is not there'
sleep 0.01 2>/dev/null && busy_wait=0.3 quiet_wait=0.5 || busy_wait=1 quiet_wait=1

# names.sh

# scan.sh

# identity.sh

# reading.sh

# begin.sh

done_files='' bad_files='' held_files='' waited='' copied_inodes='' unripe='' has_csvlog=c has_jsonlog=j unread='' fresh=''
heads=$nl todo='' suspect='' pops=0 sent=0 open_inode='' open_name='' state=known device=0 head_length=0 head_sum=$no_sum
tail_length=0 tail_sum=$no_sum gone_count=0 off=0 open_size=0 waiting=0 told='' ticks=0 since_beat=0 since_full=0 quiet=0
dir_mtime='' rechecked='' scanned_at=0 last_clock=0 head_text='' unsure_left=$unsure_max
say_settings "$path"
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
scan_kind=all due=1 sent_before=0

while :; do
  sent=0
  if [ "$open_inode" ]; then
    set -- $(stat -L -c '%s %i %Y' /proc/self/fd/3 "$dir")
    open_size=$1 inode=$5 mtime=$6
    if [ "$open_size" -lt "$off" ] || ! send "$open_size"; then
      leave_truncated
    elif [ $sent -eq 0 ] && [ $sent_before -ne 0 ]; then
      say "I $off"
    fi
  else
    set -- $(stat -L -c '%i %Y' "$dir")
    inode=$1 mtime=$2
  fi
  sent_before=$sent
  [ "$inode" = "$dir_inode" ] || fail moved "$dir was replaced"
  # A directory's time has whole seconds here: within the second of the last scan it proves nothing.
  if [ "$mtime" != "$dir_mtime" ] || [ "$mtime" -ge $((scanned_at - 1)) ]; then due=1; fi

  if [ "$todo" ] && [ $pops -lt $pops_max ]; then
    pops=$((pops + 1)) candidate=${todo%%"$nl"*} todo=${todo#*"$nl"}
    go_on "$candidate" && continue
  elif [ $due -ne 0 ] || [ $since_beat -ge $beat_max ] || [ "$todo" ]; then
    clock=$(date +%s)
    # After a leap of the clock, or a long stop, modification times say nothing: look at everything.
    if [ "$clock" -lt "$last_clock" ] || [ "$clock" -gt $((last_clock + 60)) ] || [ $since_full -ge $full_scan_every ]; then
      scan_kind=all since_full=0
    fi
    # Among those that are left there may be old ones.
    [ -z "$todo" ] || scan_kind=all since_beat=$beat_max
    dir_mtime=$mtime last_clock=$clock scanned_at=$clock due=0
    kind_now=$scan_kind scan_kind=recent
    scan $kind_now
    if [ $since_beat -ge $beat_max ]; then
      [ "$open_inode" ] || off=0 open_size=0
      say "H $clock $off $open_size $behind"
      since_beat=0 unsure_left=$unsure_max
      resolved=$dir
      resolve
      # A fresh follower gets only those that may still come back.
      [ $gone_count -lt $gone_max ] || fail renew "$gone_count files are gone"
      [ "$dir" = "$resolved" ] || fail moved "the logs moved from $resolved to $dir"
    fi
    [ -z "$todo" ] || continue
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
