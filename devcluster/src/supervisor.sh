# Runs the processes of one cluster and outlives its owner just long enough to end them.
#
#   $1  the cluster's directory
#   $2  `remove` to delete that directory at the end, `keep` to leave it
#
# Standard input is a pipe that only the owner holds open. It carries commands, one per line:
#
#   start NAME   run the command in run/NAME.args (one argument per line), output to log/NAME.log
#   stop NAME    kill it
#
# A process that ended leaves run/NAME.exit. When the pipe closes, because the owner closed it or has ended, all processes
# end. Ctrl-C in the owner's terminal affects only the owner.

dir=$1
ending=$2
etcd='' apiserver='' controllers=''

trap '' INT HUP PIPE QUIT
trap 'finish; exit 0' TERM

# Runs one process and attends it, to kill it on request. `doom` makes the request in two ways, since a signal that arrives
# while this subshell is being created can be lost.
attend() {
    name=$1
    child='' doomed=''
    trap 'doomed=yes; [ -z "$child" ] || kill -KILL "$child" 2>/dev/null' TERM
    set --
    while IFS= read -r argument; do set -- "$@" "$argument"; done <"$dir/run/$name.args"
    "$@" </dev/null >>"$dir/log/$name.log" 2>&1 &
    child=$!
    [ ! -e "$dir/run/$name.doomed" ] || doomed=yes
    [ -z "$doomed" ] || kill -KILL "$child" 2>/dev/null
    echo "$child" >"$dir/run/$name.pid"
    wait "$child"
    code=$?
    # A signal interrupts the wait, so wait again.
    [ -z "$doomed" ] || wait "$child"
    echo "$code" >"$dir/run/$name.exit.new"
    mv -f "$dir/run/$name.exit.new" "$dir/run/$name.exit"
}

# Kills the process that subshell $2 attends under the name $1. The file is for a subshell that has not checked for it yet; the
# signal is for one that has.
doom() {
    [ -n "$2" ] || return
    : >"$dir/run/$1.doomed"
    kill -TERM "$2" 2>/dev/null
}

finish() {
    doom apiserver "$apiserver"
    doom controllers "$controllers"
    doom etcd "$etcd"
    wait
    cd /
    [ "$ending" = keep ] || rm -rf -- "$dir"
}

while read -r verb name; do
    case $verb in
    start)
        rm -f "$dir/run/$name.exit" "$dir/run/$name.pid" "$dir/run/$name.doomed"
        attend "$name" &
        eval "$name=\$!"
        ;;
    stop)
        eval "pid=\$$name"
        doom "$name" "$pid"
        [ -z "$pid" ] || wait "$pid" 2>/dev/null
        eval "$name=''"
        ;;
    esac
done

finish
