# Part of the follower: where the logs are, which files are logs, and the list of them.

# Sets dir, and name when one file is followed; of a data directory destinations (such as " stderr csvlog") and live,
# the name of the file that the best of them writes.
name=''
resolve() {
  destinations='' live='' live_json='' live_log=''
  if [ "$name" ] || [ -f "$path" ]; then
    # It stays one file while it is not there: between a rename and the new file.
    dir=${path%/*} name=${path##*/}
    [ "$dir" ] || dir=/
  elif [ -e "$path/PG_VERSION" ] || [ -e "$path/current_logfiles" ]; then
    dir=''
    if [ -r "$path/current_logfiles" ]; then
      # "csvlog log/name.csv": all destinations are in the one log_directory
      while read -r destination file; do
        destinations="$destinations $destination"
        [ "$dir" ] || dir=${file%/*}
        case $destination in
          csvlog) live=${file##*/} ;;
          jsonlog) live_json=${file##*/} ;;
          stderr) live_log=${file##*/} ;;
        esac
      done <"$path/current_logfiles"
      [ "$live" ] || live=$live_json
      [ "$live" ] || live=$live_log
      case $dir in '' | /*) ;; *) dir=$path/$dir ;; esac
    fi
    [ "$dir" ] || for dir in "$path/log" "$path/pg_log"; do [ ! -d "$dir" ] || break; done
  else
    dir=$path
  fi
}

# Whether the file $1 (./name) is one of the logs, by its name. Sets compressed, renamed when another name is all that
# speaks against it, and beaten when a better file with the same messages does.
wanted() {
  base=${1#./} compressed='' renamed='' beaten=''
  case $base in
    *.gz)
      # While the file it was made of is there, it is not finished, or a copy.
      [ ! -e "./${base%.gz}" ] || return 1
      base=${base%.gz} compressed=1
      ;;
  esac
  if [ "$name" ]; then
    # What logrotate makes of its name is part of it.
    case $base in
      "$name" | "$name".[0-9]* | "$name"-[0-9]* | "$name".old) return 0 ;;
    esac
    # Who may ask for this file alone could name any other one of its directory as known.
    [ "${pgsluice_allowed+set}" ] || renamed=1
    return 1
  fi
  case $base in
    .* | *~ | *.bz2 | *.xz | *.zst | *.lz4 | *.zip | *.tmp | *.swp)
      renamed=1
      return 1
      ;;
    *.csv | *.csv[.-]*) kind=csvlog found_csvlog=c ;;
    *.json | *.json[.-]*) kind=jsonlog found_jsonlog=j ;;
    *) kind=stderr ;;
  esac
  case $format in
    plain) return 0 ;;
    auto)
      [ "$base" = "$live" ] || ! surpassed || {
        beaten=1
        return 1
      }
      ;;
    *) [ $kind = "$format" ] || ! renamed=1 ;;
  esac
}

# auto: whether the same messages are in a better file, which has the same name but for its extension.
surpassed() {
  case $kind in
    csvlog) return 1 ;;
    jsonlog)
      stem=${base%.json*} rotated=${base##*.json}
      better "$stem.csv$rotated"
      ;;
    *)
      case $base in
        *.log*) stem=${base%.log*} rotated=${base##*.log} ;;
        *) stem=$base rotated='' ;;
      esac
      better "$stem.csv$rotated" || better "$stem.json$rotated" || return 1
      # It was followed before the better one began: if stderr is no destination any more, what came since is only here.
      [ "$known_inode" = "$inode" ] || return 0
      case $destinations in
        '' | *stderr*) return 0 ;;
      esac
      return 1
      ;;
  esac
}

better() { [ -e "./$1" ] || [ -e "./$1.gz" ]; }

# auto: PostgreSQL makes the .log file before the .csv and .json of the same name: where there are such, a file that
# is new waits for a better one.
is_ripe() {
  [ "$format$name" = auto ] && [ "$base" != "$live" ] || return 0
  case $kind$has_csvlog$has_jsonlog in
    csvlog* | jsonlog | jsonlogj | stderr) return 0 ;;
  esac
  case $unripe in
    *" $inode:"*)
      first=${unripe#*" $inode:"}
      [ $((clock - ${first%% *})) -lt $ripe_after ] || return 0
      ;;
    *) unripe="$unripe $inode:$clock " ;;
  esac
  scan_kind=all
  return 1
}

# The candidates, a line each: INODE S MTIME SIZE NAME. $1: all, or recent.
list() {
  if [ "$name" ] && [ -L "$name" ]; then
    stat -L -c '%i S %Y %s ./%n' -- "$name" 2>/dev/null
  fi
  if [ "$1" = all ]; then
    find . ! -name . -prune -type f ! -name '*[[:cntrl:]]*' -exec stat -c '%i S %Y %s %n' {} + 2>/dev/null
  else
    find . ! -name . -prune -type f ! -name '*[[:cntrl:]]*' -mmin -2 -exec stat -c '%i S %Y %s %n' {} + 2>/dev/null
  fi
}
