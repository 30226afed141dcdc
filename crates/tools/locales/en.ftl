# Titles of tool calls. Each has a form for the time before its arguments are known.

read-file = Read { $path }
read-file-lines = Read { $path }, lines { $lines }
read-file-pending = Read a file

list-directory = List { $path }
list-directory-pending = List a directory

find-path = Find `{ $pattern }` in { $path }
find-path-pending = Find files by name

grep = Search for `{ $pattern }` in { $path }
grep-pending = Search in files

write-file = Write { $path }
write-file-pending = Write a file

edit-file = Edit { $path }
edit-file-pending = Edit a file

terminal = Run `{ $command }`
terminal-pending = Run a command

think = Think: { $thought }
think-pending = Think

todo-write = Update the plan: { $done } of { $count } done
todo-write-pending = Update the plan
