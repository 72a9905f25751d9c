# Part of the follower and of the probe: what a server's configuration files say of its log.
# Reads at most confs_max files and conf_max bytes of each.
conf_max=1048576
confs_max=40
options_max=8192
setting_max=1000 # bytes of a line that says a setting
zone_max=64      # the frames of codec/frames.js hold no longer ones
prefix_max=256

# Sets conf and auto_conf to the configuration files of the server whose log is at $1: those of the data directory that it
# is or is in, or of the cluster whose log Debian puts into /var/log/postgresql; and options to the command line that the
# server was started with. Empty when they cannot be found.
find_configuration() {
  conf='' auto_conf='' options=''
  for place in "$1" "${1%/*}" "$1/.." "${1%/*}/.."; do
    [ -f "$place/PG_VERSION" ] || continue
    conf=$place/postgresql.conf auto_conf=$place/postgresql.auto.conf
    # /usr/lib/postgresql/17/bin/postgres "-D" "/srv/data" "-c" "config_file=/etc/postgresql/17/main/postgresql.conf"
    if [ -f "$place/postmaster.opts" ]; then
      options=$(head -c $options_max <"$place/postmaster.opts" 2>/dev/null | tr '\000\012' '\001 ')
    fi
    if option 'config[-_]file'; then conf=$value; fi
    return
  done
  case ${1##*/} in
    postgresql-*-*.log)
      conf=${1##*/postgresql-} conf=${conf%.log}
      conf=${conf%%-*}/${conf#*-}
      auto_conf=/var/lib/postgresql/$conf/postgresql.auto.conf
      conf=/etc/postgresql/$conf/postgresql.conf
      ;;
  esac
}

# Sets value to what the command line says of the setting $1 (a pattern), and is false when it does not.
option() {
  case $options in
    *[\"c-]$1=*) ;;
    *) return 1 ;;
  esac
  value=${options##*[\"c-]$1=}
  value=${value%%\"*}
}

# Sets zone and prefix to what the configuration file $1 says, with the files it includes in their places: the last wins.
# The lines that matter come out of sed as a letter and what follows the setting's name.
read_settings() {
  [ $confs_left -gt 0 ] && [ -f "$1" ] && [ -r "$1" ] || return 0
  confs_left=$((confs_left - 1))
  IFS=$nl
  for line in $(
    head -c $conf_max <"$1" 2>/dev/null | tr '\000\015' '\001 ' | sed -n \
      -e 's/^[[:blank:]]*[Ll][Oo][Gg]_[Tt][Ii][Mm][Ee][Zz][Oo][Nn][Ee]\([^A-Za-z0-9_.].*\)/Z\1/p' \
      -e 's/^[[:blank:]]*[Ll][Oo][Gg]_[Ll][Ii][Nn][Ee]_[Pp][Rr][Ee][Ff][Ii][Xx]\([^A-Za-z0-9_.].*\)/P\1/p' \
      -e 's/^[[:blank:]]*[Ii][Nn][Cc][Ll][Uu][Dd][Ee]_[Ii][Ff]_[Ee][Xx][Ii][Ss][Tt][Ss]\([^A-Za-z0-9_.].*\)/I\1/p' \
      -e 's/^[[:blank:]]*[Ii][Nn][Cc][Ll][Uu][Dd][Ee]\([^A-Za-z0-9_.].*\)/I\1/p' \
      -e 's/^[[:blank:]]*[Ii][Nn][Cc][Ll][Uu][Dd][Ee]_[Dd][Ii][Rr]\([^A-Za-z0-9_.].*\)/D\1/p' 2>/dev/null |
      tail -n $confs_max
  ); do
    IFS=" 	$nl"
    [ $confs_left -gt 0 ] || break # files that include each other
    [ ${#line} -le $setting_max ] && read_value "${line#?}" || continue
    case $line in
      Z*) zone=$value ;;
      P*) prefix=$value ;;
      *)
        case $value in
          /*) ;;
          *) value=${1%/*}/$value ;;
        esac
        case $line in
          I*) read_settings "$value" ;;
          *)
            IFS=$nl
            for included in $(find "$value/." ! -name . -prune -name '*.conf' ! -name '.*' 2>/dev/null | sort); do
              IFS=" 	$nl"
              read_settings "$included"
            done
            ;;
        esac
        ;;
    esac
  done
  IFS=" 	$nl"
}

# Sets value to what follows the name of a setting, = 'it''s' # comment, and is false when that is nothing of use.
read_value() {
  set -- "${1#"${1%%[! 	=]*}"}"
  value=''
  case $1 in
    \'*) set -- "${1#?}" ;;
    *)
      value=${1%%[ 	#]*}
      [ "$value" ]
      return
      ;;
  esac
  while :; do
    piece=${1%%[\\\']*}
    value=$value$piece
    set -- "${1#"$piece"}"
    case $1 in
      "''"* | "\\'"* | '\\'*)
        piece=${1#??}
        set -- "${1%"$piece"}" "$piece"
        value=$value${1#?}
        set -- "$2"
        ;;
      \'*) return 0 ;;
      *) return 1 ;; # \n and the like, or no end
    esac
  done
}

# Says the settings that tell how to read the log at $1.
say_settings() {
  zone='' prefix='' confs_left=$confs_max
  find_configuration "$1"
  read_settings "$conf"
  read_settings "$auto_conf"
  if option 'log[-_]timezone'; then zone=$value; fi
  if option 'log[-_]line[-_]prefix'; then prefix=$value; fi
  case $zone in
    '' | *[!A-Za-z0-9_+/-]*) ;;
    *) [ ${#zone} -gt $zone_max ] || say "Z $zone" ;;
  esac
  # One with a control character is rather found from the lines.
  case $prefix in
    '' | *[[:cntrl:]]*) ;;
    *) [ ${#prefix} -gt $prefix_max ] || say "P $prefix" ;;
  esac
}
