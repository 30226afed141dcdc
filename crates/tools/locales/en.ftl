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
