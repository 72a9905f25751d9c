# Part of the follower: where a stream begins.

# What was there before the stream began is skipped, as from says.
baseline() {
  IFS=$nl
  known_inode='' last=''
  set -- $(list all | sort -k3,3n -k5)
  for entry; do
    inode=${entry%% *}
    wanted "${entry#* S * * }" && [ -z "$compressed" ] && last=$inode
  done
  for entry in "$@"; do
    IFS=$blank
    inode=${entry%% *}
    file=${entry#* S * * }
    wanted "$file" || continue
    if [ "$from" = current ] && [ "$inode" = "$last" ]; then break; fi
    size=${entry#* S * } size=${size%% *}
    [ -r "$file" ] && [ "$size" -gt 0 ] || continue
    command exec 3<"$file" || continue
    if [ "$compressed" ]; then
      set -- $(gzip -dc <&3 2>/dev/null | head -c $sum_max | cksum)
      entry="$2 $2 $1 0 $no_sum $file"
      known=$known$inode\ K\ $entry$nl
      done_before="$done_before $inode/$size "
      say "S $inode $entry"
      say "E $inode $size"
    else
      off=$size open_inode=$inode open_name=$file
      take_sums
      describe
      open_inode=''
      known=$known$entry$nl
      say "S $inode ${entry#* K }"
    fi
    exec 3<&-
  done
  IFS=$blank
  say B
}
