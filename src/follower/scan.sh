# Part of the follower: compares the files that are there with what is known of them, and finds what has to be read.

# Compares the candidates with what is known (lines INODE K OFFSET HEADLEN HEADSUM TAILLEN TAILSUM NAME): sets todo to
# the files with unread bytes, oldest first (lines "MTIME INODE SIZE NAME"), behind to all unread bytes outside the
# open file, fresh to the files that are not known or not as they were. When nothing is unread, the newest file is opened: that is where
# the next bytes are expected. A compressed file is read once, its size says nothing.
# One sort brings both lines of an inode together, so a directory of thousands of files stays linear.
scan() {
  todo='' behind=0 known_inode='' kept='' unreadable='' fresh='' missing='' present=' ' moved='' last_inode=''
  passed='' newest_better=0 found_csvlog='' found_jsonlog='' newest='' newest_mtime=0 open_mtime=0 open_listed='' open_other=''
  heads=$nl
  [ $since_beat -lt $beat_max ] || held_files=''
  IFS=$nl
  for entry in $({ printf %s "$known"; list "$1"; } | sort); do
    inode=${entry%% *} entry=${entry#* }
    case $entry in
      K\ *)
        [ -z "$known_inode" ] || missing=$missing$known_inode\ $known_entry$nl
        known_inode=$inode known_entry=$entry
        ;;
      S\ *)
        entry=${entry#S }
        mtime=${entry%% *} entry=${entry#* }
        size=${entry%% *} file=${entry#* }
        # Another name of a file that was listed already.
        if [ "$inode" = "$last_inode" ]; then continue; fi
        wanted "$file" && is_wanted=1 || is_wanted=''
        if [ "$inode" = "$open_inode" ]; then
          open_mtime=$mtime
          [ "$file" = "$open_name" ] && open_listed=1 || open_other=$file
          continue
        fi
        read_to=-1 known_name=$file
        if [ "$known_inode" = "$inode" ]; then
          read_to=${known_entry#K } read_to=${read_to%% *}
          known_name=${known_entry#K * * * * * }
          kept=$kept$inode\ $known_entry$nl known_inode=''
        fi
        if [ "$beaten" ]; then
          [ "$read_to" -ge 0 ] || [ "$compressed" ] || [ "$size" -eq 0 ] || passed=$passed$mtime\ $inode\ $size\ $file$nl
        elif [ "$kind" != stderr ] && [ "$mtime" -gt $newest_better ]; then
          newest_better=$mtime
        fi
        # A known file under any name may still be written to: a rename does not tell the writer.
        [ "$is_wanted" ] || { [ "$renamed" ] && [ "$size" -gt "$read_to" ] && [ "$read_to" -gt 0 ]; } || continue
        last_inode=$inode
        if [ "$compressed" ]; then
          present="$present$inode "
          if is_done; then continue; fi
          fresh=$fresh$mtime\ $inode\ $size\ $file$nl
          if is_in "$held_files" "$inode/$size"; then continue; fi
          read_to=0
        elif [ "$read_to" -lt 0 ]; then
          is_ripe || continue
          if [ "$size" -eq 0 ]; then
            # What has a suffix may be a copy that is being made.
            stem_of "$file"
            [ "./$stem" != "$file" ] || look_newest
            continue
          fi
          fresh=$fresh$mtime\ $inode\ $size\ $file$nl present="$present$inode "
          if is_in "$held_files" "$inode/$size"; then continue; fi
          read_to=0
        else
          present="$present$inode "
          if [ "$size" -eq "$read_to" ] && ! is_in "$gone_inodes" "$inode" && [ "$inode" != "$suspect" ]; then
            [ "$file" = "$known_name" ] || moved=$moved$mtime\ $inode\ $size\ $file$nl
            look_newest
            continue
          fi
          # Its inode may serve another file.
          fresh=$fresh$mtime\ $inode\ $size\ $file$nl
          # What became of the bytes of a truncated file is settled before any other file is read.
          if [ "$inode" = "$suspect" ]; then
            mtime=0 read_to=0
          elif [ "$size" -lt "$read_to" ]; then
            mtime=1 read_to=0
          fi
        fi
        if ! [ -r "$file" ]; then
          unreadable=${file#./}
          continue
        fi
        todo=$todo$mtime\ $inode\ $size\ $file$nl
        case $unread in
          *" $inode "*) ;;
          *) unread=$unread$mtime\ $inode\ $size\ $file$nl ;;
        esac
        behind=$((behind + size - read_to))
        ;;
    esac
  done
  [ -z "$known_inode" ] || missing=$missing$known_inode\ $known_entry$nl
  known=$kept
  IFS=$blank
  if [ "$open_other" ] && ! [ "$open_listed" ]; then
    open_name=$open_other
    say_open
  fi
  if [ "$1" = all ]; then
    has_csvlog=$found_csvlog has_jsonlog=$found_jsonlog
    IFS=$nl
    for entry in $missing; do gone "$entry"; done
    for entry in $unread; do removed "$entry"; done
    IFS=$blank
    unread=$todo
    pass_over
  else
    known=$known$missing
  fi
  while [ "$moved" ]; do
    confirm "${moved%%"$nl"*}"
    moved=${moved#*"$nl"}
  done
  case $todo in
    *"$nl"?*) todo=$(printf %s "$todo" | sort -k1,1n -k4)$nl ;;
    '') [ -z "$newest" ] || [ "$newest_mtime" -le "$open_mtime" ] || [ "$sent" -ne 0 ] || todo=$newest$nl ;;
  esac
  if [ "$unreadable" ] && [ "$unreadable" != "$told" ]; then say "W unreadable $dir/$unreadable"; fi
  told=$unreadable pops=0
}

# What is also in better files is named as skipped: it must not be read when those are removed first. Only what is no
# longer written to, and some at a time.
pass_over() {
  passes=$passes_max
  while [ "$passed" ] && [ $passes -gt 0 ]; do
    entry=${passed%%"$nl"*} passed=${passed#*"$nl"}
    mtime=${entry%% *} entry=${entry#* }
    inode=${entry%% *} entry=${entry#* }
    size=${entry%% *} file=${entry#* }
    [ $((mtime + passed_after)) -lt $newest_better ] && [ "${file#./}" != "$live_log" ] && command exec 5<"$file" || continue
    set -- $(stat -L -c '%i %s' /proc/self/fd/5)
    if [ "$1 $2" = "$inode $size" ]; then
      holder_inode=$inode holder_size=$size compressed='' passes=$((passes - 1))
      skip
    fi
    exec 5<&-
  done
}

# Whether $2 is in the list $1 (" 12  13 ").
is_in() {
  case $1 in
    *" $2 "*) return 0 ;;
  esac
  return 1
}

# Nothing of the listed file is unread: it is perhaps the one that is written to.
look_newest() {
  if [ "$mtime" -gt $newest_mtime ] && [ -r "$file" ]; then
    newest_mtime=$mtime newest=$mtime\ $inode\ $size\ $file
  fi
}

# Whether the listed compressed file is dealt with. An inode and a size may come again: the time tells in this run.
is_done() {
  if is_in "$gone_inodes" "$inode"; then return 1; fi
  if is_in "$done_files" "$inode/$size/$mtime" || is_in "$bad_files" "$inode/$size/$mtime"; then return 0; fi
  is_in "$done_before" "$inode/$size" && [ "$known_name" = "$file" ] || return 1
  done_files="$done_files $inode/$size/$mtime "
}

# The known file $1 was not listed: it is no longer there, unless its bytes are in another file now. It stays known,
# for it may come back (a volume that was not mounted, a file that was moved away for a while).
gone() {
  inode=${1%% *}
  if [ "$inode" != "$open_inode" ] && ! is_in "$gone_inodes" "$inode"; then
    IFS=$blank
    find_copy "$1" && {
      IFS=$nl
      return
    }
    IFS=$nl
    if [ "$unsure" ]; then
      scan_kind=all due=1
    else
      say "G $inode"
      gone_inodes="$gone_inodes $inode " gone_count=$((gone_count + 1))
    fi
  fi
  known=$known$1$nl
}

# The file $1 ("MTIME INODE SIZE NAME") had unread bytes when it was last looked for: says so if it is no longer there.
removed() {
  inode=${1#* } inode=${inode%% *}
  case $present$open_inode\  in
    *" $inode "*) return ;;
  esac
  # Its bytes may have been found in another file.
  if is_in "$copied_inodes" "$inode"; then return; fi
  entry=${1#* * }
  unread_bytes=${entry%% *}
  for line in $known; do
    case $line in
      "$inode K "*)
        line=${line#* K }
        unread_bytes=$((unread_bytes - ${line%% *}))
        ;;
    esac
  done
  [ "$unread_bytes" -le 0 ] || say "L removed $unread_bytes ${entry#* ./}"
}

# The known file $1 ("MTIME INODE SIZE NAME") has another name, and nothing of it is unread: its inode may serve another
# file by now.
confirm() {
  moved_to=${1#* * * } inode=${1#* }
  inode=${inode%% *}
  forget "$inode"
  [ "$entry" ] || return 0
  lost=$entry
  if command exec 4<"$moved_to"; then
    set -- "$1" $(stat -L -c '%i %s' /proc/self/fd/4)
    holder_size=$3
    if [ "$2" = "$inode" ] && intact 4; then
      known=$known${entry%"${entry#* K * * * * * }"}$moved_to$nl
      exec 4<&-
      return
    fi
    exec 4<&-
  fi
  known=$known$entry$nl
  todo=0\ ${1#* }$nl$todo
}
