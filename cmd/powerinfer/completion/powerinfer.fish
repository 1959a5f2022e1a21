# Completion of powerinfer for fish: powerinfer completion fish > ~/.config/fish/completions/powerinfer.fish
function __powerinfer_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	set -l prefix (string match -r -- '^-[^=]*=' "$current")
	set -l value (string replace -r -- '^-[^=]*=' '' "$current")
	for line in ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
		switch $line
			case :files
				for path in (__fish_complete_path "$value")
					echo "$prefix$path"
				end
			case :folders
				for path in (__fish_complete_directories "$value" '')
					echo "$prefix$path"
				end
			case '*'
				echo $line
		end
	end
end
complete -c powerinfer -e
complete -c powerinfer -f -a '(__powerinfer_complete)'
