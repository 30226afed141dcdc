# Titles of tool calls. Each has a form for the time before its arguments are known.

read-file = Read { $path }
read-file-lines = Read { $path }, lines { $first }-{ $last }
read-file-from = Read { $path }, from line { $first }
read-file-last = Read { $path }, the last { $count } lines
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
terminal-list-pending = List the commands in the background

terminal-output = Look at `{ $command }`
terminal-output-ended = Look at `{ $command }`, which has ended
terminal-output-pending = Look at a command in the background

terminal-input = Type `{ $text }` at `{ $command }`
terminal-input-pending = Type at a command in the background

terminal-wait = Wait for `{ $command }`
terminal-wait-pending = Wait for a command in the background

terminal-stop = Stop `{ $command }`
terminal-stop-pending = Stop a command in the background

think = Think: { $thought }
think-pending = Think

todo-write = Update the plan: { $done } of { $count } done
todo-write-pending = Update the plan

# What an argument that is too long ends with, behind its beginning.
shortened = { $start } … ({ $lines ->
    [one] 1 line
   *[other] { $lines } lines
}, { $bytes } bytes)

# Notes for the person who permits a call. The model reads them too, in English.

text = { $text }
thousands = ,

outside = Outside of the workspace: { $path }

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
files-not-shown = { $files } more files would be changed, +{ $added } −{ $removed } lines, which are not shown: { $named }.
files-not-shown-more = { $files } more files would be changed, +{ $added } −{ $removed } lines, which are not shown: { $named } and { $more } more.
whole-change = The whole change

unread = This session has not read { $path }, whose whole content is replaced.
kept = The file keeps { $what }.
kept-encoding = its encoding ({ $encoding })
kept-guessed-encoding = its encoding ({ $encoding } (guessed))
kept-line-ends = its line ends ({ $name })
kept-mark = its byte order mark

applied = Nothing was changed in { $path }: its new_text is there already, at line { $line }. If it is meant once more, set occurrence.
applied-of = Nothing was changed in { $path } by edit { $edit } of { $edits }: its new_text is there already, at line { $line }. If it is meant once more, set occurrence.
stale = { $path } has changed elsewhere since it was read.

unsaved = { $path } has changes in the editor that are not saved: it is the editor's text that is changed, not what is on the disk.
not-on-disk = { $path } is not on the disk yet: it is the text in the editor that is changed.
unknown = It is not known whether { $path } has changes in the editor that are not saved: { $why }.
unknown-too-large = it is too large to ask
unknown-garbled = its text there is another one than on the disk, but with characters missing that the editor could not decode

torn = Written in place, and without a copy to repair it from: { $paths }. A crash meanwhile may leave parts of the old text and of the new one.
unkept = What is replaced cannot be restored afterwards: { $why }.
keeps-nothing = this session keeps nothing of what it changes
keeps-nowhere = the state folder { $folder } cannot be written ({ $why }); make room there, make it writable, or set XDG_STATE_HOME to a folder that is

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
lost-no-file = it is no file, and on another file system than what is kept
lost-large = it has more than a GiB, and is on another file system than what is kept

rewind-removes = Prompt { $prompt } and everything after it are removed from this session.
stays = { $path } is left alone: { $why }.
stays-kept = { $path } is left alone: { $why }. What it was before the last change lies in { $kept }.
stays-not-kept = what was there before is not kept
stays-changed = it was changed by something else since
stays-gone = it is not there any more
stays-taken = something else has its name by now
stays-folder-taken = a file has the name of its folder by now
stays-former-taken = something else has its former name by now
undo-before = The next undo takes back the change before it.
late = Another program wrote to { $path } after it was replaced, which does not show in it. What it wrote lies in { $kept }.
late-undoable = Another program wrote to { $path } after it was replaced, which does not show in it. What it wrote lies in { $kept }; undoing that change restores it, if the file is not changed before.
late-in-place = Another program wrote to { $path } just when it was written, which is done in place: it may hold parts of both. Read it again.

# Why a command is asked about each time.

risks = This is asked about each time: { $reasons }.
risks-more = This is asked about each time: { $reasons }; and { $more } more.
risk-part-of-line = it is part of a line, or holds keys that edit one
risk-too-long = it is too long to be read
risk-too-many-parts = it has too many parts to be read
risk-too-deep = it is nested too deeply to be read
risk-unclear = it has no end, or holds what is not understood
risk-too-many-texts = it holds too many commands for other shells to be read
risk-too-many-files = it names too many files to be looked at
risk-many-words = which program it runs among so many words is not looked for
risk-writes-outside = it writes { $path }, outside of the roots
risk-writes-protected = it writes { $path }, which is protected
risk-writes-dangling = it writes { $path }, a link that leads to nothing yet
risk-writes-shared = it writes { $path }, which has further names elsewhere
risk-names-protected = it names { $path }, which is protected
risk-names-secret = it names { $name }, which holds credentials or a history
risk-names-process = it names { $name }, which shows what other programs hold
risk-enters-link = it goes to { $path }, which is another place by a link
risk-empties-link = it removes from { $path }, which is another place by a link
risk-removes-vital = it removes { $path }, which may be a root, a home, all that is in one, what git keeps, or outside of the roots
risk-unknown-program = which program { $program } is, is known only when it runs
risk-unknown-removal = which files it removes is known only when it runs
risk-unknown-script = which script it runs is known only when it runs
risk-unknown-code = the text that a shell runs is known only when it runs
risk-unknown-target = where it writes { $path } is known only when it runs
risk-sets-variable = it sets { $variable }, which may change what programs do
risk-evaluates = { $word } may run what it holds
risk-aliases = { $name } makes the shell run something else
risk-other-user = { $name } runs something as another user
risk-overwrites = { $name } overwrites files or disks for good
risk-overwrites-device = dd overwrites a device
risk-stops-machine = { $name } stops the machine
risk-runs-later = { $name } makes something run later
risk-shows-typed = { $name } shows or changes what was typed
risk-runs-text = { $name } runs a text as a command
risk-runs-own = { $name } runs commands of its own
risk-runs-input = { $name } runs what it reads
risk-publishes = { $name } publish cannot be taken back
risk-lets-write = chmod lets everybody write
risk-git-sets = it sets what git runs
risk-git-clean = git clean removes what git does not keep
risk-git-push = git push overwrites or removes what is there
risk-git-runs = git runs a command that the line names
risk-shell-first = a shell runs another file first
risk-shell-input = a shell runs what it reads
risk-shell-unclear = how a shell is started is not understood
