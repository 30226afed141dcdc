# Names of permission options, and the effects that they cover.

allow-once = Allow once
allow-preview = Preview: run on a copy first
reject-once = Reject once
allow-always-session = Always allow { $what } in this session
allow-always-project = Always allow { $what } in this project
reject-always-session = Always reject { $what } in this session

what-read = reading { $path }
what-search = searching { $path }
what-write = changing { $path }
what-delete = deleting { $path }
what-run = `{ $command }`
what-run-in = `{ $command }` in { $cwd }
what-connect = connecting to { $host }
what-mcp = { $tool } of { $server }
what-mcp-all = all tools of { $server }
what-tool = the tool { $tool }
what-kind = tools of the kind { $kind }
what-commands = commands that begin with `{ $prefix }`
what-unknown = what is not known

# Notes on a call that waits for permission.

unseen = These files were changed without a question: { $named }. The command may run them.
unseen-more = These files were changed without a question: { $named } and { $more } more. The command may run them.
unseen-at-least = These files were changed without a question: { $named } and at least { $more } more. The command may run them.
rules-unreadable = Each call needs permission, because the stored rules cannot be read: { $why }.
not-covered = Not covered by the rule for `{ $words }`: { $why }.
not-known = the options of `{ $program }` are not known
not-a-word = `{ $word }` is not a word of `{ $program }` that is understood
leads-out = `{ $word }` leads out of the folder
asked-preview = It runs on a copy of the project folders first, without network access. You are asked again before its changes are applied.
asked-sandbox = It runs in a sandbox that protects your files, with access to the network.
not-whole = Not everything of this call is shown: secrets are hidden, or what is long is cut.
reads-first = The change is shown once reading is permitted.
outdated = Something else changed what this call works on after it was permitted, so nothing was done then. This is what it does now.

# Reasons why a call did not run. They are also sent to the model, in English.

denied-rule = Not permitted by a rule. It did not run.
denied-mode = Not permitted by the session's mode. It did not run.
denied-fault = Not permitted: the permission check had an internal error. It did not run.
denied-ended = It has ended already. It did not run.
unanswered = Not run: permission was not granted: { $error }.
unanswered-void = Not run: the client's answer is none of the options that it was offered.
unanswered-withdrawn = Not run: the question was withdrawn.
rejected = Rejected by the user. It did not run.
rejected-said = Rejected by the user. It did not run. They said: { $said }
rejected-approver = Rejected by the approver. It did not run.
rejected-approver-said = Rejected by the approver. It did not run. It said: { $said }
