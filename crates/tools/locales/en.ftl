# Titles of tool calls. Each has a form for the time before its arguments are known.

read-file = Read { $path }
read-file-lines = Read { $path }, lines { $first }-{ $last }
read-file-from = Read { $path }, from line { $first }
read-file-last = Read { $path }, the last { $count } lines
read-file-of-last = Read { $path }, the first { $lines } of the last { $count } lines
read-file-last-line = Read { $path }, the last line
read-file-pending = Read a file

list-directory = List { $path }
list-directory-here = List the working directory
list-directory-pending = List a directory

find-path = Find `{ $pattern }` in { $path }
find-path-here = Find `{ $pattern }`
find-path-pending = Find files by name

grep = Search for `{ $pattern }` in { $path }
grep-here = Search for `{ $pattern }`
grep-pending = Search in files

write-file = Write { $path }
write-file-pending = Write a file

edit-file = Edit { $path }
edit-file-pending = Edit a file

delete-path = Delete { $path }
delete-path-pending = Delete a file

move-path = Move { $from } to { $to }
move-path-pending = Move a file

undo = Undo the last change
rewind = Go back to the state before prompt { $prompt }
rewind-pending = Go back to an earlier prompt
undo-pending = Undo the last change

terminal = Run `{ $command }`
terminal-in = Run `{ $command }` in { $cwd }
terminal-pending = Run a command

terminal-list = List the commands in the background

terminal-output = Look at `{ $command }`
terminal-output-ended = Look at `{ $command }`, which has ended
terminal-output-pending = Look at a command in the background

terminal-input = Type `{ $text }` at `{ $command }`
terminal-input-pending = Type at a command in the background

terminal-wait = Wait for `{ $command }`

terminal-stop = Stop `{ $command }`
terminal-stop-pending = Stop a command in the background

fetch = Fetch { $url }
fetch-from = Fetch { $url }, from line { $first }
fetch-pending = Fetch a page

web-search = Search the web for `{ $query }`
web-search-pending = Search the web

think = Think: { $thought }
think-pending = Think
mcp = { $tool } ({ $server }) { $arguments }
mcp-plain = { $tool } ({ $server })
mcp-pending = Tool of a server

find-tool = Find tools for `{ $query }`
find-tool-pending = Find tools

todo-write = Update the plan: { $done } of { $count } done
todo-write-pending = Update the plan

# The end of an argument that is too long, after its beginning.
shortened = { $start } … ({ $lines ->
    [one] 1 line
   *[other] { $lines } lines
}, { $bytes } bytes)

# Notes for the person who permits a call. The model reads them too, in English.

text = { $text }
thousands = ,

outside = Outside of the project folders: { $path }
no-sandbox = It runs without a sandbox: { $reason }.
outside-sandbox = It runs outside of the sandbox. Reason: { $why }
typing-outside-sandbox = The command runs outside of the sandbox, so typing into it needs permission each time.
outside-sandbox-stopped = It runs outside of the sandbox, which may have stopped it ({ $line }). Reason: { $why }
connects = The command wants to connect to { $host }.
connects-upstream = The command wants to connect to { $host }, by the proxy that your environment names.
fetch-by-proxy = The proxy that your environment names connects to { $host }, so its address is not checked.
fetch-redirect = The page redirects to { $host }.
fetch-redirect-by-proxy = The page redirects to { $host }. The proxy that your environment names connects to it, so its address is not checked.
protected-changed = The command changed protected files, and the changes COULD NOT be undone: { $names }. Look at them before you use other programs in this folder.
protected-changed-in-background = While the command ran in the background, it or another program changed protected files: { $names }. Look at them before you use other programs in this folder.
mcp-changed = The definition of this tool, or its server, has changed since the tool was allowed. The server now describes the tool as follows: { $now }
mcp-description-changed = The description of this tool has changed in this session. Before: { $before } Now: { $now }
mcp-schema-changed = The arguments of this tool, or the hints about its effects, have changed in this session. Its description is the same.
mcp-elicitation = The MCP server { $server } asks: { $message }
mcp-sampling = The server wants to ask the model, which uses tokens of yours, and gets the reply. Its prompt:
mcp-sampled = The reply of the model to the server:
sandbox-hides-nothing = The sandbox of this system cannot hide your keys and the state of the agent here, because the project folder contains them.
sandbox-background = The sandbox of this system cannot undo changes of protected files by a command in the background.
protected-restored = The command changed protected files, and the changes were undone: { $names }. The changed files are kept beside them, with .changed-by-command in their names. Use the tools for files to change them.
made-names = While the command ran, executable files or names with a dot were made or changed: { $names }
made-names-and-more = While the command ran, executable files or names with a dot were made or changed, maybe more than these: { $names }
made-names-unknown = The project is too large to find all executable files and names with a dot that commands make.
refused-hosts = Connections were refused to: { $hosts }
timed-out = It was ended after its timeout of { $ms-text } ms.
waited-for-input = It was ended because it may have been waiting for input, which is not available.
left-over = { $processes ->
    [one] One process that it left running was ended.
   *[other] { $processes-text } processes that it left running were ended.
}
client-kill-failed = The client could not end the command, which may still run: { $error }
client-output-missing = The client did not return the output of the command: { $error }
sandbox-stopped = The command ran in a sandbox: it can change only the project folders and /tmp, cannot read files that a rule hides, and reaches only hosts that the user permits. This may have stopped it: { $line }. If so, call again with outside_sandbox; the user is then asked.

preview-question = The command ran on a copy of the project folders, without network access. If you allow it, exactly these changes are applied to the project folders.
preview-no-changes = The command ran on a copy of the project folders, without network access. It changed no files.
preview-applied = The command ran on a copy of the project folders, without network access. Its changes were allowed and are now applied to the project folders.
preview-rejected = The command ran only on a copy of the project folders. Its changes were not applied.
preview-again = Another program changed the same files, so the command ran again on a new copy.
preview-failed-command = The command failed ({ $how }).
preview-path-note = { $path }: { $what }
preview-folder = Adds the folder { $path }
preview-mode = The file permissions of { $path } change from { $before } to { $after }.
preview-executable = The new file { $path } is executable (permissions { $after }).
preview-no-text = The new content of { $path } is not text: { $bytes ->
    [one] { $bytes-text } byte
   *[other] { $bytes-text } bytes
}.
preview-link = Adds { $path }, a link to { $target }.
preview-repository = In the folder .git, { $files ->
    [one] { $files-text } file changes
   *[other] { $files-text } files change
}. These changes are not shown.
preview-generated = { $path } changes: { $files ->
    [one] { $files-text } file
   *[other] { $files-text } files
}, { $bytes ->
    [one] { $bytes-text } byte
   *[other] { $bytes-text } bytes
}. Its content is generated, so these changes are not shown and cannot be undone.
preview-generated-removed = { $path } changes: { $files ->
    [one] { $files-text } file
   *[other] { $files-text } files
}, { $bytes ->
    [one] { $bytes-text } byte
   *[other] { $bytes-text } bytes
}; { $removed ->
    [one] { $removed-text } file or folder is
   *[other] { $removed-text } files and folders are
} removed. Its content is generated, so these changes are not shown and cannot be undone.
preview-skipped-modes = Not applied: new permissions of the folders { $names }.
preview-hidden = Some content is not shown, because reading it needs permission: { $names }
preview-denied = A rule denies changing { $path }, so none of the changes are applied.
preview-not-for = The configuration requires a preview (terminal.preview), but commands in the background or with input have none. If you allow the command, it changes the project folders directly.
no-preview-network-unknown = it probably needs a network, which a preview does not have
preview-skipped = Not applied: { $names }. New protected names, sockets, pipes and devices are never applied.
preview-unavailable = The configuration requires a preview (terminal.preview), but no preview works in these project folders. If you allow the command, it changes them directly.
no-preview = The command cannot be previewed, because { $why }. No project file was changed.
no-preview-question = If you allow the command now, it runs in the project folders and changes them directly.
no-preview-outdated = other programs keep changing the same files
no-preview-network = it wants to connect to { $hosts }, and a preview has no network
no-preview-large = it changes more than { $paths-text } paths or { $mebibytes-text } MiB
no-preview-hard-links = it changes { $path }, which has several hard links, and a copy separates them
no-preview-rename = it failed, probably because folders of the project cannot be renamed in a copy
no-preview-unreadable = { $path } cannot be compared ({ $why })
no-preview-inapplicable = its changes cannot be applied ({ $why })
no-preview-timeout = it did not end within its time limit
no-preview-sandbox = no copy of the project folders can be made ({ $why })

unrecorded-project = Changes by commands cannot be undone, because the project folders contain more than { $entries-text } files and folders.
unrecorded-slow = The changes of this command cannot be undone, because reading the project folders took too long.
unrecorded-many = The command changed more than { $paths-text } files and folders, so its changes cannot be undone.
unrecorded-paths = These changes of the command cannot be undone: { $names }
unrecorded-commit = The command changed the branch, a commit or the stash of a git repository. An undo reverts only the files.
unrecorded-background = Changes that the command makes from now on cannot be undone.

change-add = Adds { $path }
change-modify = Changes { $path }
change-delete = Deletes { $path }
change-move = Moves { $from } to { $path }
change-copy = Copies { $from } to { $path }

lines-not-shown = { $path }: +{ $added } −{ $removed } more { $lines ->
    [one] line is
   *[other] lines are
} not shown.
lines-not-listed = { $path }: +{ $added } −{ $removed } more { $lines ->
    [one] line is
   *[other] lines are
} not listed.
files-not-shown = { $files } more files with +{ $added } −{ $removed } lines are not shown: { $named }.
files-not-shown-more = { $files } more files with +{ $added } −{ $removed } lines are not shown: { $named } and { $more } more.
whole-change = The whole change

unread = This session has not read { $path }, whose whole content is replaced.
invalid-utf8 = The old content of { $path } is not valid UTF-8. Its invalid bytes are shown in the form \xff, and are lost.
kept = The file keeps { $what }.
kept-encoding = its encoding ({ $encoding })
kept-guessed-encoding = its encoding ({ $encoding } (guessed))
kept-line-ends = its line ends ({ $name })
kept-mark = its byte order mark

unchanged = Nothing was changed in { $path }: its content stays the same.
applied = Nothing was changed in { $path }: it already contains new_text, at line { $line }. To insert new_text again, set occurrence.
applied-of = Nothing was changed in { $path } by edit { $edit } of { $edits }: it already contains new_text, at line { $line }. To insert new_text again, set occurrence.
stale = { $path } has changed since it was read.

unsaved-left = { $path } has changes in the editor that are not saved. Only the file on the disk is deleted or moved.
unsaved = { $path } has changes in the editor that are not saved: the editor's text is changed, not the file on the disk.
not-on-disk = { $path } is not on the disk yet: the editor's text is changed.
unknown = It is not known whether { $path } has changes in the editor that are not saved: { $why }.
unknown-too-large = it is too large to ask
unknown-garbled = its text in the editor differs from the disk, and lacks characters that the editor could not decode

torn = Written in place, without a copy for a repair: { $paths }. A crash during the write may leave parts of the old and the new text.
unkept = The replaced content cannot be restored afterwards: { $why }.
keeps-nothing = this session keeps no copies of the files that it changes
keeps-nowhere = the state folder { $folder } cannot be written ({ $why }); free some space there, make the folder writable, or set XDG_STATE_HOME to a writable folder

directory = A directory with { $entries ->
    [one] { $entries-text } file or directory
   *[other] { $entries-text } files and directories
}, { $bytes ->
    [one] { $bytes-text } byte
   *[other] { $bytes-text } bytes
}.
directory-at-least = A directory with at least { $entries ->
    [one] { $entries-text } file or directory
   *[other] { $entries-text } files and directories
}, { $bytes ->
    [one] { $bytes-text } byte
   *[other] { $bytes-text } bytes
}.
kept-once = It can be restored only until the next change of a file: it has more than { $bytes-text } bytes.
lost = It cannot be restored afterwards: { $why }.
lost-directory = it is a directory, and it is on another file system than the kept copies
lost-large = it is larger than 1 GiB, and it is on another file system than the kept copies

rewind-unrecorded = Changes by these commands are not undone, because they ran in the background or were interrupted: { $commands }.
rewind-removes = Prompt { $prompt } and everything after it will be removed from this session.
stays = { $path } is left unchanged: { $why }.
stays-moved = The content of { $from } is left unchanged: { $why }. The file moves to { $path }.
stays-folder = Some changes in the project folder { $path } are not undone: { $why }.
stays-kept = { $path } is left unchanged: { $why }. Its content before the last change is in { $kept }.
stays-not-kept = no copy of its earlier content was kept
stays-skipped = an earlier undo left it unchanged
stays-many = a command changed too many files and folders
stays-unread = the folder could not be read completely after a command, so the changes are not known
stays-not-permitted = it cannot be changed: permission denied
stays-changed = it has been changed since
stays-not-empty = it is a folder that is not empty
stays-gone = it no longer exists
stays-taken = its name is in use again
stays-folder-taken = a file now has the name of its folder
stays-former-taken = its former name is in use again
removes-empty = Removes these folders if they contain nothing else: { $paths }.
stays-folders = These folders are left, because they are not empty or cannot be removed: { $names }
undo-before = The next undo reverts the change before this one.
late = Another program wrote to { $path } after it was replaced. The file does not contain that text, which is kept in { $kept }.
late-undoable = Another program wrote to { $path } after it was replaced. The file does not contain that text, which is kept in { $kept }; undoing that change restores it, unless the file changes first.
late-in-place = Another program wrote to { $path } while it was written in place: it may contain parts of both texts. Read it again.

# Reasons why a command needs permission each time.

risks = This needs permission each time: { $reasons }.
risks-more = This needs permission each time: { $reasons }; and { $more } more.
risk-part-of-line = it is part of a line, or contains keys that edit a line
risk-too-long = it is too long to be parsed
risk-too-many-parts = it has too many parts to be parsed
risk-too-deep = it is nested too deeply to be parsed
risk-unclear = it is incomplete, or contains syntax that is not understood
risk-too-many-texts = it contains too many commands for other shells to be parsed
risk-too-many-files = it names too many files to be checked
risk-many-words = it has too many words to find the program that it runs
risk-writes-outside = it writes { $path }, outside of the project folders
risk-writes-protected = it writes { $path }, which is protected
risk-writes-dangling = it writes { $path }, a link whose target does not exist
risk-writes-shared = it writes { $path }, which has other names elsewhere
risk-removes-protected = it deletes or moves { $path }, which is protected
risk-removes-directory = it deletes or moves the directory { $path }, whose content is not checked
risk-names-protected = it names { $path }, which is protected
risk-names-secret = it names { $name }, which contains credentials or a history
risk-names-process = it names { $name }, which shows the data of other programs
risk-enters-link = it changes to { $path }, which is another place because of a link
risk-empties-link = it removes files in { $path }, which is another place because of a link
risk-removes-vital = it removes { $path }, which may be a project folder, a home folder, everything in one of these, data of git, or outside of the project folders
risk-finds-outside = it runs a program that may change the files below { $path }, outside of the project folders
risk-unknown-program = the program { $program } is known only when it runs
risk-unknown-removal = the files that it removes are known only when it runs
risk-unknown-script = the script that it runs is known only when it runs
risk-unknown-code = the text that a shell runs is known only when it runs
risk-unknown-target = the target of its output, { $path }, is known only when it runs
risk-sets-variable = it sets { $variable }, which may change what programs do
risk-sets-unknown = { $variable } may set or remove variables that change what programs do
risk-shell-option = the option { $option } changes how the shell runs commands
risk-evaluates = { $word } may run commands that it contains
risk-aliases = { $name } changes the commands that the shell runs
risk-redefines = it defines a function { $name }, which replaces a command of this name
risk-other-user = { $name } runs a command as another user
risk-overwrites = { $name } overwrites files or disks permanently
risk-overwrites-device = dd overwrites a device
risk-stops-machine = { $name } stops the machine
risk-runs-later = { $name } runs a command later
risk-shows-typed = { $name } shows or changes the history of typed commands
risk-runs-text = { $name } runs a text as a command
risk-runs-own = { $name } runs commands from its script
risk-runs-input = { $name } runs what it reads
risk-publishes = { $name } publish cannot be undone
risk-lets-write = chmod lets all users write
risk-git-sets = it sets a program that git runs
risk-git-clean = git clean removes files that git does not track
risk-git-push = git push overwrites or removes branches or tags of the remote
risk-git-runs = git runs a command that the line names
risk-shell-first = a shell runs another file first
risk-shell-input = a shell runs what it reads
risk-other-shell = the commands of { $name } are not understood
risk-shell-unclear = an option of a shell is not understood
