# Completion of powerinfer for bash: source <(powerinfer completion bash), in ~/.bashrc.
_powerinfer() {
	local program=${COMP_WORDS[0]/#\~/$HOME} line
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:files) return ;; # readline's own, by -o default: it knows quotes and ~
		:folders) compopt -o dirnames +o default 2>/dev/null; return ;;
		*) COMPREPLY+=("${line%%$'\t'*}") ;;
		esac
	done < <("$program" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	[ ${#COMPREPLY[@]} -gt 0 ] || compopt +o default 2>/dev/null
}
complete -o default -F _powerinfer powerinfer
