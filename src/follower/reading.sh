# Part of the follower: opens, sends and leaves files. Descriptor 3 is the open file, 4 a file that is compared, 5 the
# next one, 6 a way around a pipe.

say_open() { say "F $open_inode $device $off $state ${open_name#./}"; }

leave() {
  describe
  # Of what was empty nothing is known.
  [ "$off" -eq 0 ] || known=$known$entry$nl
  exec 3<&-
  open_inode=''
}

# The open file was truncated, and perhaps written again: its line says what was sent of it, and it is looked at anew.
leave_truncated() {
  suspect=$open_inode
  leave
  rescan
}

# Something has changed since the files were listed.
rescan() {
  exec 5<&-
  scan_kind=all due=1 todo=''
}

# Goes on with the file of line $1 ("MTIME INODE SIZE NAME"), if it has to be read. False when it cannot be opened.
go_on() {
  file=${1#* * * } inode=${1#* } mtime=${1%% *}
  inode=${inode%% *}
  [ "$inode" != "$open_inode" ] || return 0
  command exec 5<"$file" || {
    rescan
    return 1
  }
  set -- $(stat -L -c '%i %s %d' /proc/self/fd/5)
  [ "$1" = "$inode" ] || {
    rescan
    return 0
  }
  holder_inode=$inode holder_size=$2 listed_size=$2 next_device=$3 compressed=''
  case $file in
    *.gz)
      compressed=1
      send_compressed
      ;;
    *) recognise && change_to ;;
  esac
  exec 5<&-
}

# What is known of the file on descriptor 5: sets next_state and entry, which becomes its K line. False when it is not
# to be read now.
recognise() {
  forget "$inode"
  next_state=new
  if [ "$entry" ]; then
    compare_with_known && return
    if [ "$kind_now" != all ] || { [ "$inode" != "$rechecked" ] && [ "$inode" != "$suspect" ]; }; then
      # The files that are not known must be those of now: its copy may have been made after they were listed.
      known=$known$entry$nl rechecked=$inode
      rescan
      return 1
    fi
    rechecked=''
    # The rest of the old bytes first.
    own_size=$holder_size
    set -- "$entry"
    if find_copy "$entry"; then
      todo=''
      [ "$inode" != "$suspect" ] || suspect=''
      return 1
    fi
    if [ "$unsure" ]; then
      known=$known$1$nl
      rescan
      return 1
    fi
    [ "$inode" != "$suspect" ] || suspect=''
    if [ -z "$compressed" ] && ! wanted "$file"; then
      # Its inode serves something that is no log.
      say "G $inode"
      return 1
    fi
    replaced=1 holder_inode=$inode holder_size=$own_size
  else
    replaced=''
  fi
  examine
  case $verdict in
    new) entry='' ;;
    held)
      [ -z "$replaced" ] || say "G $inode"
      # Its bytes come from where they were written to, or, if that is truncated first, from here. When all of them were
      # sent, and the copy is finished, it is as good as read.
      if [ "$holder_size" -le "$offset" ] && [ "$mtime" -lt $((clock - finished_after)) ]; then
        skip
      else
        held_files="$held_files $inode/$listed_size "
      fi
      return 1
      ;;
    copied)
      forget "$inode"
      compare_with_known
      ;;
    longer)
      [ -z "$replaced" ] || say "G $inode"
      entry=${lost#* K }
      entry=${entry%"$lost_name"}$file
      say "S $inode $entry"
      entry="$inode K $entry" next_state=known
      ;;
    wait)
      [ -z "$replaced" ] || say "G $inode"
      return 1
      ;;
    *)
      [ "$verdict" = truncated ] && leave_truncated || rescan
      [ -z "$replaced" ] || say "G $inode"
      return 1
      ;;
  esac
}

# All that the file on descriptor 5 holds was sent from another one.
skip() {
  head_of /proc/self/fd/5 "$file"
  part=${head#* }
  set -- $(sum_of /proc/self/fd/5 "$file" $((holder_size - part)) "$part")
  entry="$holder_size $part ${head% *} $part $1 $file"
  known=$known$inode\ K\ $entry$nl
  say "S $inode $entry"
  [ -z "$compressed" ] || say_done
}

# Whether the file on descriptor 5 is still what entry says.
compare_with_known() {
  lost=$entry suffix=''
  [ -z "$compressed" ] || suffix=.gz
  if intact 5 "$suffix"; then
    next_state=known
    return
  fi
  set -- ${entry#* K }
  # $1 offset, $2 $3 head
  [ "$holder_size" -lt "$1" ] && [ "$2" -gt 0 ] && [ "$holder_size" -ge "$2" ] &&
    [ "$(sum_of /proc/self/fd/5 "$suffix" 0 "$2")" = "$3 $2" ] || return 1
  # It lost its end but not its head (a crash of the host, or a copy made too early): what is left was read already.
  next_state=shrunk
}

# Leaves the open file for the one on descriptor 5.
change_to() {
  next_entry=$entry
  if [ "$open_inode" ]; then
    # The next file was there before this look: nothing is written to the old one after what is sent now, or, if
    # something is, the file comes round again.
    set -- $(stat -L -c %s /proc/self/fd/3)
    if [ "$1" -lt "$off" ] || ! send "$1"; then
      [ -z "$next_entry" ] || known=$known$next_entry$nl
      leave_truncated
      return
    fi
    leave
  fi
  exec 3<&5
  open_inode=$inode open_name=$file open_size=$holder_size device=$next_device state=$next_state
  off=0 head_length=0 head_sum=$no_sum tail_length=0 tail_sum=$no_sum
  set -- ${next_entry#* K }
  case $state in
    known)
      off=$1 head_length=$2 head_sum=$3 tail_length=$4 tail_sum=$5
      head_text=$(text_of /proc/self/fd/3 '')
      ;;
    shrunk)
      off=$holder_size
      take_sums
      ;;
  esac
  [ "$inode" != "$suspect" ] || suspect=''
  known_again
  if [ "$off" -gt 0 ]; then
    dd bs=65536 skip=$((off / 65536)) count=0 <&3 >/dev/null 2>&1
    [ $((off % 65536)) -eq 0 ] || dd bs=$((off % 65536)) count=1 <&3 >/dev/null 2>&1
    check_position
  fi
  say_open
  state=known
}

# inode was said to be gone and is not.
known_again() {
  is_in "$gone_inodes" "$inode" || return 0
  gone_inodes="${gone_inodes%%" $inode "*} ${gone_inodes#*" $inode "}"
}

# The exit code of gzip for the file $1, and the bytes that came out of it.
count_compressed() {
  {
    {
      gzip -dc <"$1" 2>/dev/null
      echo $? >&6
    } | wc -c
  } 6>&1
}

# Sends what the compressed file on descriptor 5 holds, unless it was sent before it was compressed. It is known as done
# then, and the open file is the open one again.
send_compressed() {
  command -v gzip >/dev/null 2>&1 || {
    bad_compressed 'gzip is not there'
    return
  }
  if is_in "$done_before" "$inode/$listed_size"; then
    # It was dealt with, and has another name now, or was away.
    forget "$inode"
    set -- ${entry#* K }
    if [ "$entry" ] && [ "$(sum_of /proc/self/fd/5 .gz 0 "$2")" = "$3 $2" ]; then
      known=$known$entry$nl
      known_again
      say "F $inode $next_device $1 known ${file#./}"
      say_done
      [ -z "$open_inode" ] || say_open
      return
    fi
    [ -z "$entry" ] || known=$known$entry$nl
  fi
  set -- $(count_compressed /proc/self/fd/5)
  [ "$1" -eq 0 ] || {
    bad_compressed 'gzip cannot read it'
    return
  }
  holder_size=$2
  recognise || return 0
  n=${entry#* K }
  n=${n%% *}
  case $next_state in
    new) n=0 ;;
    shrunk) n=$holder_size ;;
  esac
  known_again
  say "F $inode $next_device $n $next_state ${file#./}"
  rest=$((holder_size - n))
  if [ $rest -gt 0 ]; then
    say "D $n $rest"
    # dd tells what went through. If it is less than was said, what follows would be taken for log bytes: stop.
    exec 6>&1
    line=$({ gzip -dc </proc/self/fd/5 2>/dev/null | tail -c +$((n + 1)) | dd bs=65536 iflag=fullblock >&6; } 2>&1)
    exec 6>&-
    case $line in
      "$((rest / 65536))+$((rest % 65536 > 0)) "*) ;;
      *) exit 1 ;;
    esac
  fi
  head_of /proc/self/fd/5 "$file"
  known=$known"$inode K $holder_size ${head#* } ${head% *} 0 $no_sum $file"$nl
  say_done
  [ -z "$open_inode" ] || say_open
}

say_done() {
  say "E $inode $listed_size"
  done_files="$done_files $inode/$listed_size/$mtime "
}

bad_compressed() {
  say "W compressed $dir/${file#./}: $1"
  bad_files="$bad_files $inode/$listed_size/$mtime "
}

# Ends without a word when descriptor 3 is not where the frames said: the file shrank under a read.
check_position() {
  read -r line position </proc/self/fdinfo/3
  [ "$position" = "$off" ] || exit 1
}

# Sends the open file up to offset $1. False when it does not hold any more what was sent last.
# The first bytes are said to hold only when the file, after they were read, still ends there as it did before: a log may
# be truncated and written again between a look and the read. What is further on it would have to outgrow meanwhile.
send() {
  [ "$off" -lt "$1" ] || return 0
  goal=$1 end=$((off + tentative_max))
  [ $end -le "$goal" ] || end=$goal
  look_before || return 1
  n=$((end - off))
  say "T $off $n"
  read_bytes
  set -- $(sum_of /proc/self/fd/3 '' $((end - tail_length)) $tail_length)
  [ "$1" = "$tail_sum" ] || exit 1
  say "K $off"
  [ "$off" -lt "$goal" ] || return 0
  end=$goal
  look_before || return 1
  while [ "$off" -lt "$end" ]; do
    n=$((end - off))
    [ $n -le $frame_max ] || n=$frame_max
    say "D $off $n"
    read_bytes
  done
}

# Takes all sums of the open file up to offset end before that is read, since it may be truncated at any time. False when
# it does not hold any more what was sent last: a log that was truncated and written again may be longer than before.
look_before() {
  part=$sum_max
  [ $part -le "$end" ] || part=$end
  if [ $head_length -lt $sum_max ]; then new_text=$(text_of /proc/self/fd/3 ''); fi
  set -- $(
    sum_of /proc/self/fd/3 '' $((off - tail_length)) $tail_length
    sum_of /proc/self/fd/3 '' $((end - part)) $part
    [ $head_length -eq $sum_max ] || sum_of /proc/self/fd/3 '' 0 $part
  )
  [ "$1 $2 $4" = "$tail_sum $tail_length $part" ] || return 1
  tail_sum=$3 tail_length=$part
  if [ $head_length -lt $sum_max ]; then head_length=$part head_sum=$5 head_text=$new_text; fi
}

# The next n bytes of the open file.
read_bytes() {
  [ $n -lt 65536 ] || dd bs=65536 count=$((n / 65536)) <&3 2>/dev/null || exit 1
  [ $((n % 65536)) -eq 0 ] || dd bs=$((n % 65536)) count=1 <&3 2>/dev/null || exit 1
  off=$((off + n)) sent=1
  check_position
}
