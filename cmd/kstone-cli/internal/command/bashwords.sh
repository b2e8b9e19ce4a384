# What the package bash-completion provides, for a bash without it.
if ! declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
    # Sets cur, prev, words and cword. A word that follows the one before it without a space is
    # part of it, as bash divides at = and :, too.
    _get_comp_words_by_ref() {
        local i w rest=$COMP_LINE
        words=() cword=0
        for ((i = 0; i <= COMP_CWORD; i++)); do
            w=${COMP_WORDS[i]}
            if ((i == 0)); then
                words[0]=$w
            elif [[ -n $rest && $rest != [[:space:]]* ]]; then
                words[cword]+=$w
            else
                ((++cword))
                words[cword]=$w
            fi
            rest=${rest#"${rest%%[![:space:]]*}"}
            rest=${rest#"$w"}
        done
        cur=${words[cword]}
        prev=
        if ((cword > 0)); then prev=${words[cword - 1]}; fi
    }
fi
if ! declare -F __ltrim_colon_completions >/dev/null 2>&1; then
    # Cuts off what bash has cut off the word, up to its last colon.
    __ltrim_colon_completions() {
        local i head=${1%"${1##*:}"}
        if [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]]; then
            for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$head"}; done
        fi
    }
fi
if ! declare -F _filedir >/dev/null 2>&1; then
    _filedir() {
        local IFS=$'\n'
        if [[ ${1-} == -d ]]; then
            COMPREPLY+=($(compgen -d -- "$cur"))
        else
            COMPREPLY+=($(compgen -f -- "$cur"))
        fi
        compopt -o filenames 2>/dev/null
    }
fi

