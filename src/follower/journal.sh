# Follows one unit's stderr in the journal: runs on the monitored host under any POSIX sh, is never stored there.
# in : lines on stdin (see journal.js), the last one "go"
# out: the frames and entries of src/codec/journal-export.js on stdout
# It looks again and again, from the last entry it has shown on, that entry included: so the reader sees at each look
# whether the place is still there. journalctl --after-cursor would leave out the entry closest to a place that is gone
# (before systemd 253), and journalctl -f lets no heartbeat in between and no limit on what one look takes.
# The shell never holds an entry: journalctl writes to stdout through tee, only the cursor at the end comes back here.
LC_ALL=C
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
SYSTEMD_LOG_LEVEL=notice SYSTEMD_LOG_TARGET=console SYSTEMD_COLORS=0
export LC_ALL PATH SYSTEMD_LOG_LEVEL SYSTEMD_LOG_TARGET SYSTEMD_COLORS
set -f
nl='
'
look_max=2000 # entries a look: half a second of work, 96 MB if all of them are as long as a line may be (48 KiB)
beat_min=2    # seconds: no wait is longer than 2 s, so heartbeats are less than 5 s apart
check_every=60

say() { printf '%s\n' "$1" || exit 1; }
fail() {
  say "X $1 $2"
  exit 3
}

# allowed.sh

unit='' from=none cursor='' directory=''
while IFS= read -r line; do
  case $line in
    unit\ *) unit=${line#unit } ;;
    from\ *) from=${line#from } ;;
    cursor\ *) cursor=${line#cursor } ;;
    directory\ *) directory=${line#directory } ;;
    go) break ;;
  esac
done
[ "$line" = go ] || exit 2
allow "journal:$unit"
[ -z "$directory" ] || allow "$directory"

clock=$(date +%s)
say "V 1 $clock"
for tool in journalctl tee head tail sed sleep; do
  command -v $tool >/dev/null 2>&1 || fail tool "$tool is not there"
done
[ -e /proc/self/fd/0 ] || fail tool '/proc is not there'
sleep 0.01 2>/dev/null && busy_wait=0.3 quiet_wait=0.5 || busy_wait=1 quiet_wait=1
# Since systemd 236; before, all fields of an entry are sent.
case $(journalctl --help 2>/dev/null) in
  *--output-fields*) fields=--output-fields=MESSAGE,_PID,_LINE_BREAK,_TRANSPORT,N_DROPPED ;;
  *) fields='' ;;
esac
exec 3>&1

# What the unit wrote to stdout and stderr, and nothing it sent by syslog: that would be the same messages again. And
# what the journal says it dropped (of any unit: which one is only in the text before systemd 235), because it came
# too fast. Messages of the driver cannot be made by anybody else.
show() {
  journalctl ${directory:+-D "$directory"} -q --no-pager -o export "$@" \
    "_SYSTEMD_UNIT=$unit" _TRANSPORT=stdout + _TRANSPORT=driver MESSAGE_ID=a596d6fe7bfa4994828e72309e95d61e
}

# Of the unit alone: $1.. are further options and matches.
show_unit() {
  journalctl ${directory:+-D "$directory"} -q --no-pager -o export "$@" "_SYSTEMD_UNIT=$unit" _TRANSPORT=stdout
}

# The cursor of the first entry on stdin, which begins with it.
first_cursor() {
  IFS= read -r line || line=''
  case $line in
    __CURSOR=*) echo "${line#__CURSOR=}" ;;
  esac
}

# Sets problem to what keeps the unit's entries from being seen, and said to what journalctl says of it. Without -o and
# -q it tells who may see what. Somebody who sees some entries of the unit sees all of them.
check() {
  problem=''
  said=$(journalctl ${directory:+-D "$directory"} --no-pager -n 0 2>&1) || problem=failed
  case $said in
    *'not seeing messages'* | *'insufficient permissions'* | *'ermission denied'*)
      problem=unreadable
      [ -z "$(show_unit $fields 2>/dev/null | head -n 1 | first_cursor)" ] || problem=''
      said="the journal: this user is not in group systemd-journal or adm"
      ;;
    *'No journal files were found'*)
      problem=missing
      said='no journal files were found'
      ;;
  esac
  said=${said%%"$nl"*}
}

# Says what is in the way until it is not.
await_journal() {
  waiting=''
  while check && [ "$problem" ]; do
    if [ "$problem" = failed ]; then fail journal "$said"; fi
    [ "$problem" = "$waiting" ] || say "W $problem $said"
    if [ "$problem" = missing ] && [ "$from" != none ]; then
      # What comes later was never there before: the stream begins with all of it.
      say B
      from=none
    fi
    waiting=$problem
    sleep 2
    clock=$(date +%s)
    say "H $clock 0 0 0"
  done
  checked_at=$clock beat_at=$clock
}

# Says where the stream begins. A unit without entries has nothing that could be skipped.
baseline() {
  case $from in
    start) cursor=$(show $fields | head -n 1 | first_cursor) ;;
    current)
      # Since the unit's last start, or, where systemd does not number starts (before 232), since the last boot.
      newest=$(show_unit -n 1 | sed -n -e 's/^\(_SYSTEMD_INVOCATION_ID=[0-9a-f]*\)$/\1/p' -e 's/^\(_BOOT_ID=[0-9a-f]*\)$/\1/p')
      case $newest in
        *_SYSTEMD_INVOCATION_ID=*) newest=_SYSTEMD_INVOCATION_ID=${newest##*_SYSTEMD_INVOCATION_ID=} ;;
      esac
      [ -z "$newest" ] || cursor=$(show_unit $fields "${newest%%"$nl"*}" | head -n 1 | first_cursor)
      ;;
    end) cursor=$(show $fields -n 1 | head -n 1 | first_cursor) ;;
  esac
  if [ "$cursor" ]; then
    if [ "$from" = end ]; then say "P after $cursor"; else say "P before $cursor"; fi
  fi
  say B
}

# Sends the entries from cursor on, and sets moved and cursor. tee gets the second pipe by its name under /proc, which
# works for a pipe; stdout itself may be a socket.
look() {
  say "J $cursor"
  end=$({
    {
      show $fields --show-cursor --cursor="$cursor" -n $look_max
      echo "Q $? $clock"
    } | tee /proc/self/fd/4 >&3
  } 4>&1 | tail -n 2)
  moved=0
  case $end in
    "-- cursor: $cursor$nl"Q\ 0\ *) ;;
    "-- cursor: s="*"$nl"Q\ 0\ *)
      moved=1
      cursor=${end#-- cursor: }
      cursor=${cursor%%"$nl"*}
      ;;
    Q\ [01]\ *)
      # Neither the entry is there nor one after it; or nothing can be read.
      check
      [ "$problem" != failed ] || fail journal "$said"
      [ -z "$problem" ] || await_journal
      ;;
    *)
      # It broke off: what it sent may end anywhere.
      said=$(show $fields --cursor="$cursor" -n $look_max 2>&1 >/dev/null | head -n 1)
      [ -z "$said" ] || fail journal "$said"
      exit 1
      ;;
  esac
}

# Whether the last entry is so old that there must be more.
is_behind() {
  at=${cursor##*;t=}
  at=${at%%;*}
  case $at in
    '' | *[!0-9a-f]* | ?????????????????*) return 1 ;;
  esac
  [ $((0x$at / 1000000)) -lt $((clock - 1)) ]
}

await_journal
case $from in
  start | current | end) baseline ;;
esac

quiet=0
while :; do
  clock=$(date +%s)
  moved=0 behind=0
  [ "$cursor" ] || cursor=$(show $fields | head -n 1 | first_cursor)
  if [ "$cursor" ]; then
    look
    [ $moved -eq 0 ] || ! is_behind || behind=1
  fi
  # behind is 1 when more is there; how many bytes the journal does not tell.
  if [ "$clock" -lt "$beat_at" ] || [ "$clock" -ge $((beat_at + beat_min)) ]; then
    say "H $clock 0 0 $behind"
    beat_at=$clock
  fi
  if [ "$clock" -lt "$checked_at" ] || [ "$clock" -ge $((checked_at + check_every)) ]; then
    await_journal
  fi
  if [ $behind -ne 0 ]; then continue; fi
  # A look costs a few processes: look less often while nothing comes.
  if [ $moved -ne 0 ]; then
    quiet=0 wait=$busy_wait
  elif [ $quiet -lt 20 ]; then
    quiet=$((quiet + 1)) wait=$quiet_wait
  elif [ $quiet -lt 80 ]; then
    quiet=$((quiet + 1)) wait=1
  else
    wait=2
  fi
  sleep $wait
done
