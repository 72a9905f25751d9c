# Part of the follower: whether a file holds what is known of it, of another file, or something new. Everything is
# decided by cksums of a head and of the bytes before an offset, never by a name alone.

# The sum of $4 bytes from offset $3 of what the file $1, named $2, holds, as POSIX cksum prints it: SUM LENGTH.
sum_of() {
  if [ "$4" -eq 0 ]; then
    echo $no_sum 0
  elif [ "${2%.gz}" != "$2" ]; then
    gzip -dc <"$1" 2>/dev/null | tail -c +$(($3 + 1)) | head -c "$4" | cksum
  elif [ "$3" -eq 0 ]; then
    head -c "$4" "$1" 2>/dev/null | cksum
  else
    dd if="$1" bs=1 skip="$3" count="$4" 2>/dev/null | cksum
  fi
}

# Whether the file on descriptor $1, of holder_size bytes, holds what the line lost says; $2 is .gz if it is compressed.
intact() {
  set -- "/proc/self/fd/$1" "$2" ${lost#* K }
  # $3 offset, $4 $5 head, $6 $7 tail
  [ "$holder_size" -ge "$3" ] && [ "$(sum_of "$1" "$2" 0 "$4")" = "$5 $4" ] &&
    [ "$(sum_of "$1" "$2" $(($3 - $6)) "$6")" = "$7 $6" ]
}

# Whether the file $1, named $2, of holder_inode and holder_size, holds what the line lost says of a known file. Short
# ones are only taken for the same if the name says so, because many logs begin alike. So is a copy that ends before
# the offset: it was made before the last bytes were read, or is not finished.
holds() {
  holder=$1 holder_name=$2
  set -- ${lost#* K }
  # $1 offset, $2 $3 head, $4 $5 tail
  [ "$1" -gt 0 ] || return 1
  if [ "$2" -lt $sum_max ] || [ "$holder_size" -lt "$1" ]; then derived "$holder_name" "$lost_name" || return 1; fi
  if [ "$holder_size" -lt "$2" ]; then
    # Only of the file that was open just now its first bytes are here themselves.
    [ "${lost%% *}" = "$suspect" ] && [ "$holder_size" -gt 0 ] || return 1
    holder_text=$(text_of "$holder" "$holder_name")
    [ "$holder_text" ] || return 1
    case $head_text in
      "$holder_text"*) return 0 ;;
    esac
    return 1
  fi
  if [ "$2" -eq $sum_max ]; then
    head_of "$holder" "$holder_name"
    [ "$head" = "$3 $2" ] || return 1
  else
    [ "$(sum_of "$holder" "$holder_name" 0 "$2")" = "$3 $2" ] || return 1
  fi
  [ "$holder_size" -lt "$1" ] || [ "$(sum_of "$holder" "$holder_name" $(($1 - $4)) "$4")" = "$5 $4" ]
}

# The first bytes of the file $1, named $2, as numbers.
text_of() {
  case $2 in
    *.gz) gzip -dc <"$1" 2>/dev/null | od -An -v -tx1 -N$sum_max | tr -d '\n' ;;
    *) od -An -v -tx1 -N$sum_max "$1" 2>/dev/null | tr -d '\n' ;;
  esac
}

# Whether the name $1 is what logrotate makes of $2, or of what it made $2 of: X.2.gz of X or X.1, never X.
derived() {
  stem_of "$1"
  derived_from=$stem
  [ "$stem" != "${1#./}" ] || return 1
  stem_of "$2"
  [ "$stem" = "$derived_from" ]
}
stem_of() {
  stem=${1#./} stem=${stem%.gz} stem=${stem%.old}
  # a number or a date at the end
  while :; do
    case $stem in
      *[.-][0-9]*) ;;
      *) return ;;
    esac
    case ${stem##*[.-]} in
      *[!0-9_:]*) return ;;
    esac
    stem=${stem%[.-]*}
  done
}

# Sets head to the sum and the length of the head of the file $1, named $2, of holder_inode; computed once a listing.
head_of() {
  head=''
  case $heads in
    *"$nl$holder_inode "*) head=${heads#*"$nl$holder_inode "} ;;
  esac
  if [ -z "$head" ]; then
    head=$(sum_of "$1" "$2" 0 $sum_max)
    # A short one may still grow.
    [ "${head#* }" -lt $sum_max ] || heads=$heads$holder_inode\ $head$nl
  fi
  head=${head%%"$nl"*}
}

# Looks for the bytes of the known file $1 (its K line), whose inode does not hold them any more, in the files that are
# not known: a copy that logrotate made before it truncated the log, or that was compressed since. If there is one, it
# becomes the known file. Sets unsure when there is none, but files have changed their names since they were listed.
find_copy() {
  lost=$1 copy='' copy_size=-1 unsure=''
  lost_name=${lost#* K * * * * * }
  IFS=$nl
  for candidate in $fresh; do
    IFS=$blank
    holder_inode=${candidate#* } holder_size=${candidate#* * } candidate=${candidate#* * * }
    holder_inode=${holder_inode%% *} holder_size=${holder_size%% *}
    [ "$holder_inode" != "${lost%% *}" ] && may_begin_alike || continue
    if ! command exec 4<"$candidate"; then
      [ ! -r "$candidate" ] && [ -e "$candidate" ] || unsure=1
      continue
    fi
    if [ "$(stat -L -c %i /proc/self/fd/4)" != "$holder_inode" ]; then
      unsure=1
    else
      head_of /proc/self/fd/4 "$candidate"
      if may_begin_alike && count_holder && [ "$holder_size" -gt $copy_size ] && holds /proc/self/fd/4 "$candidate"; then
        # If it was copied twice, the longer one has it all.
        copy=$holder_inode copied=$candidate copy_size=$holder_size
      fi
    fi
    exec 4<&-
  done
  IFS=$blank
  if [ -z "$copy" ]; then
    # Not for ever: what cannot be opened for another reason would never end.
    [ -z "$unsure" ] || unsure_left=$((unsure_left - 1))
    [ $unsure_left -gt 0 ] || unsure=''
    return 1
  fi
  forget "$copy"
  if [ "$entry" ]; then
    # Its inode held another known file, whose bytes may be elsewhere in turn.
    set -- "$lost" "$copy" "$copied"
    find_copy "$entry"
    lost=$1 copy=$2 copied=$3
  fi
  say_copied
}

# Whether the head of holder_inode, if it is known, may be the one of the line lost.
may_begin_alike() {
  case $heads in
    *"$nl$holder_inode "*) head=${heads#*"$nl$holder_inode "} head=${head%%"$nl"*} ;;
    *) return 0 ;;
  esac
  case ${lost#* K * } in
    "$sum_max ${head% *} "*) return 0 ;;
    "$sum_max "*) return 1 ;;
  esac
}

# Sets holder_size to what the candidate on descriptor 4 holds, if it is compressed. False when it cannot be read.
count_holder() {
  case $candidate in
    *.gz) ;;
    *) return 0 ;;
  esac
  set -- $(count_compressed /proc/self/fd/4)
  holder_size=$2
  [ "$1" -eq 0 ]
}

# The bytes of the known file lost are in the file copied, of inode copy.
say_copied() {
  say "C ${lost%% *} $copy ${copied#./}"
  entry=${lost#* K }
  entry="$copy K ${entry%"${entry#* * * * * }"}$copied"
  known=$known$entry$nl
  copied_inodes="$copied_inodes ${lost%% *} "
  due=1 scan_kind=all
}

# What the fresh file on descriptor 5, named file, of holder_inode and holder_size, is. Sets verdict to
#   new        its bytes were not seen before
#   held       a copy of a file that is still there, where they are read
#   copied     the only copy now of a known file; that was said, and entry is its line
#   truncated  the open file does not hold any more what was sent of it
#   longer     what a known file is a copy of, whose line is lost: the rest of it is new
#   wait       it looks at a file first that is not known either
#   later      the files have changed since they were listed
examine() {
  verdict=new best=-1 best_line='' entry=''
  [ "$holder_size" -gt 0 ] || return 0
  head_of /proc/self/fd/5 "$file"
  if original_first; then
    verdict=wait
    return
  fi
  [ -z "$open_inode" ] || describe
  IFS=$nl
  for lost in $entry $known; do
    # Only those that begin alike, or are so short that their name must tell.
    case ${lost#* K * } in
      "$sum_max ${head% *} "*) ;;
      "$sum_max "*) [ "$holder_size" -lt $sum_max ] || continue ;;
    esac
    IFS=$blank
    lost_inode=${lost%% *} lost_name=${lost#* K * * * * * }
    if [ "$lost_inode" != "$holder_inode" ]; then compare; fi
    IFS=$nl
    [ $verdict = new ] || break
  done
  IFS=$blank
  if [ $verdict = new ] && [ "$best_line" ]; then
    verdict=copied copy=$holder_inode copied=$file
    forget "${best_line%% *}"
    lost=$best_line
    say_copied
  fi
}

# Whether the fresh file seems to be a copy of one that is not known either: then that is read first, for it may have more.
original_first() {
  stem_of "$file"
  [ "./$stem" != "$file" ] && ! is_in "$waited" "$inode" || return 1
  waited="$waited $inode "
  for original in "$stem" "$stem.1"; do
    original=./$original
    case $fresh in
      *" $original$nl"*) ;;
      *) continue ;;
    esac
    [ "$original" != "$file" ] && set -- $(stat -c '%i %s' "$original" 2>/dev/null) || continue
    case $nl$known in
      *"$nl$1 K "*) continue ;;
    esac
    if [ "$1" != "$inode" ] && [ "$2" -gt 0 ] && [ "$(sum_of "$original" '' 0 "${head#* }")" = "$head" ]; then
      todo=$mtime\ $1\ $2\ $original$nl$mtime\ $inode\ $listed_size\ $file$nl$todo
      return
    fi
  done
  return 1
}

# Compares the fresh file with the known file lost, whose head it may have.
compare() {
  set -- ${lost#* K }
  offset=$1 lost_length=$2
  [ "$offset" -gt 0 ] || return 0
  if [ "$2" -lt $sum_max ] || [ "$holder_size" -lt $sum_max ]; then derived "$file" "$lost_name" || return 0; fi
  # Where is it?
  if [ "$lost_inode" = "$open_inode" ]; then
    place=/proc/self/fd/3
  else
    place=$(find -L . ! -name . -prune -type f -inum "$lost_inode" ! -name '*[[:cntrl:]]*' 2>/dev/null)
    place=${place%%"$nl"*}
    if [ "$name" ] && [ "${pgsluice_allowed+set}" ] && ! (wanted "$place"); then place=''; fi
  fi
  if [ "$place" ]; then
    command exec 4<"$place" && set -- $(stat -L -c '%i %s' /proc/self/fd/4) || set -- ''
    if [ "$1" != "$lost_inode" ]; then
      verdict=later
    else
      copy_size=$holder_size holder_size=$2 lost_size=$2
      if intact 4; then
        # It is not a copy if it has more, or something else.
        part=$sum_max
        [ $part -le "$copy_size" ] || part=$copy_size
        if [ "$copy_size" -le "$lost_size" ] &&
          [ "$(sum_of /proc/self/fd/5 "$file" $((copy_size - part)) $part)" = \
            "$(sum_of /proc/self/fd/4 '' $((copy_size - part)) $part)" ]; then
          verdict=held
        elif [ "$copy_size" -gt "$lost_size" ] && [ "$lost_length" -eq $sum_max ] && holder_size=$copy_size &&
          holds /proc/self/fd/5 "$file"; then
          # It is what a copy was made of, and has more.
          [ "$offset" -eq "$lost_size" ] && verdict=longer || verdict=held
        else
          # Unless the original was truncated since it was looked at: then this may be the only copy.
          set -- $(stat -L -c %s /proc/self/fd/4)
          holder_size=$1
          if [ "$1" -ge "$lost_size" ] && intact 4; then
            place=other
          elif [ "$lost_inode" = "$open_inode" ]; then
            verdict=truncated
          else
            verdict=later
          fi
        fi
      elif [ "$lost_inode" = "$open_inode" ]; then
        verdict=truncated
      fi
      holder_size=$copy_size
    fi
    exec 4<&-
  fi
  if [ $verdict = new ] && [ "$place" != other ] && [ "$offset" -gt $best ] && holds /proc/self/fd/5 "$file"; then
    best=$offset best_line=$lost
  fi
}

# Sets entry to the K line of the open file at offset off.
describe() {
  entry="$open_inode K $off $head_length $head_sum $tail_length $tail_sum $open_name"
}

# Sets head and tail of the open file up to off.
take_sums() {
  head_length=$off
  [ $head_length -le $sum_max ] || head_length=$sum_max
  tail_length=$head_length
  set -- $(
    sum_of /proc/self/fd/3 '' 0 $head_length
    sum_of /proc/self/fd/3 '' $((off - tail_length)) $tail_length
  )
  head_sum=$1 tail_sum=$3
  [ "$off" -eq 0 ] || head_text=$(text_of /proc/self/fd/3 '')
}

# Removes the line of inode $1 from known, sets entry to it.
forget() {
  entry=''
  case $nl$known in
    *"$nl$1 K "*) ;;
    *) return 0 ;;
  esac
  kept=''
  IFS=$nl
  for line in $known; do
    case $line in
      "$1 K "*) entry=$line ;;
      *) kept=$kept$line$nl ;;
    esac
  done
  known=$kept
  IFS=$blank
}
